"""What cellwright promises about characters that a person would not see."""

PROMISES = {
    "hidden:tools": "No answer of any tool has a hidden or control character in any text or key, whatever notebooks, names, kernels and pads hold.",
    "hidden:resources": "Nor has any resource, its metadata, a list of resources or a completion.",
    "hidden:terminal": "Nor does the name of a folder reach the terminal of whoever starts the program as anything but letters.",
    "hidden:errors": "Nor has any refusal, whatever it repeats.",
    "hidden:spelt": "What is left of hidden characters in names and data is spelt as JSON does it: given back in an argument it is the very character.",
    "hidden:cheap": "Plain text goes out as it is, without a copy.",
}
