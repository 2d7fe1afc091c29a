"""Looking at what a kernel holds: in depth, without a trace, and without running what the notebook defines."""

PROMISES = {
    "variables:rows": "Without names, inspect_variables lists every variable with type, shape, dtype, length and the start of its value, at most a hundred, and says how many more there are.",
    "variables:tables": "A named data frame of pandas or table of pyarrow is told with its columns, their types, nulls and ranges, its index and its first rows; large ones by a sample, which is said.",
    "variables:arrays": "A named array is told with shape, type, size, range, mean, missing numbers and first elements; a large one by a sample, which is said.",
    "variables:parts": "Containers are told by their items and objects by the attributes that they keep, three levels deep, within a bound; what contains itself ends there.",
    "variables:paths": "A path of attributes and constant keys leads into a variable; what is not there is null with a reason and the nearest name, and anything that would be code is refused.",
    "variables:pictures": "A figure of matplotlib and an image of Pillow that a variable holds come as a picture, and are not changed by it.",
    "variables:no-code": "Looking runs nothing that the notebook's classes define: neither repr, length, attributes, properties, keys, hashes nor a class that lies.",
    "variables:no-trace": "Looking changes neither the execution count nor _, Out, In, the names of the notebook nor the modules that are loaded.",
    "variables:busy": "A kernel that is busy is not waited for, and one that does not run is not started: both are said at once.",
    "variables:bounded": "However much a variable holds, the look ends within its time and the answer within its budget, and hidden characters do not reach it.",
    "variables:process": "kernel_environment tells the memory, processor time, threads and child processes of a Python kernel.",
    "variables:page": "The page shows the variables of a notebook's running kernel as a table, asked for when it is opened and at no other time, with the depth of each on demand; all of it as text.",
    "variables:page:scope": "Only who may run code sees variables on the page; it never starts a kernel.",
}
