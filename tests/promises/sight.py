"""Promises about sight: an edit means what its caller was shown, and says what it did."""

PROMISES = {
    "sight:merge": "Two changes of one text are merged where they do not touch; where they do, there is no merged text.",
    "sight:index": "An index, a range or an execution count means the cell that was shown there, wherever it is by now; the answer says where.",
    "sight:gone": "If a cell that was shown is gone, nothing is changed, and the answer has the outline around where it was.",
    "sight:insert": "New cells go after the cell that they were to follow when the caller saw the notebook.",
    "sight:merge:cells": "What somebody else changed in a cell after the caller saw it is merged, or the edit is refused with what they did; `any` overwrites it.",
    "sight:moved": "A cell that somebody moved after the caller saw it is not moved by an edit that does not know of it.",
    "sight:nothing-shown": "Who was shown nothing acts on the notebook as it is, and the answer names the cells by id and first line.",
    "sight:two-agents": "Agents with one token have a view each: of their connection, or by its name.",
    "sight:together": "Calls that are sent together do not count on each other's answers: what they mean by these is refused, unless it is the same without them.",
    "sight:place": "A text is replaced where it was when the caller saw it; if somebody changed it since, the same words elsewhere are left alone.",
    "sight:forgotten": "A view that is no longer remembered is refused and not guessed; what is remembered is bounded.",
    "sight:diff": "Every edit of a notebook answers with a short diff of what it changed, and a view.",
    "sight:documents": "A position in a text means the text that was shown; what others changed since is merged, or the edit is refused with what they did.",
    "sight:order": "An answer whose view has another order than the caller's last one, by what others did, shows all cells or says what came, went and moved.",
    "sight:aside": "What a person looks at in a chat beside the agent does not count as shown to the agent.",
    "sight:resources": "What a resource shows has a view, too; it counts only in calls that name it.",
    "sight:bounds": "What is remembered of views and texts is bounded in number and size.",
    "sight:proposals": "What was shown of a proposal does not count for the notebook; in the proposal, indexes mean what was shown of it.",
    "sight:random": "However a person's and two agents' work falls together, no wrong cell is changed, no text is lost, and nothing is refused for no reason.",
}
