"""Promises about pads under kills, full disks, many callers and hostile ones."""

PROMISES = {
    "scratch:proof:replicas": "Two servers share one PostgreSQL; when one is killed under load nothing acknowledged is lost and the other goes on.",
    "scratch:proof:kill": "However often a writer of pads is killed, the pads are as after the last acknowledged change, or the one after it, whole.",
    "scratch:proof:full": "A full or failing disk is said in the envelope, loses nothing, and writing goes on when there is room.",
    "scratch:proof:no-leak": "However the steps of two tenants interleave, nothing that one is told comes from the other.",
    "scratch:proof:same-work": "Another's pad, a deleted, an evicted and no pad cost the same statements and give the same answer.",
    "scratch:proof:at-once": "Changes of one pad at the same time leave every cell once, at positions without gaps.",
    "scratch:proof:evict-at-once": "Creates at the same time at capacity keep the limit and name each evicted pad once.",
    "scratch:proof:import-once": "Of imports to one id at the same time one makes the pad, and the others change nothing.",
    "scratch:proof:hostile": "Odd ids, filters, numbers, nesting and files are refused in the envelope; whatever is stored can be read again.",
    "scratch:proof:literal": "Quotes, wildcards and operators in names and questions mean themselves and widen nothing.",
    "scratch:proof:pages": "No page leaves out what the next does not begin with, however large the items are.",
    "scratch:proof:bombs": "While one caller validates bombs, others' pads answer.",
    "scratch:proof:private": "The database and its folder are the owner's alone.",
    "scratch:proof:told": "A change of a pad is announced for the pad, for it in every format, and for the list, which shows its size.",
    "scratch:proof:uses": "A refused create does not make pads that were just read count as idle.",
}
