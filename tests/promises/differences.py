"""Promises about the difference of two texts."""

PROMISES = {
    "differences:lead-there": "What is told as the difference of two texts leads from the one to the other, however little work was allowed.",
    "differences:small": "Where items can be told apart, only those that changed are in the difference.",
    "differences:unified": "Differences are shown in the usual unified form.",
    "differences:bounded": "The difference of any two texts is found within a fixed number of steps.",
}
