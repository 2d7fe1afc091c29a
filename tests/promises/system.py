"""Promises about operating systems, and about starting on odd machines."""

PROMISES = {
    # one place
    "system:one-place": "Names that only one operating system has stand in cellwright/system and nowhere else.",
    "system:windows:loads": "With everything absent that Windows does not have, every module of cellwright loads.",
    # files
    "system:private": "A private file or folder is closed to others; one of somebody else is refused. On Windows the profile's rights protect it.",
    "system:replace": "A file is replaced whole or not at all, and no draft is left behind.",
    "system:replace:open": "On Windows a file that somebody has open is replaced as soon as they have done; if they do not, it stays as it is.",
    "system:replace:new": "A new file is named in one step and never over another, also where a file cannot have two names.",
    "system:files-open": "The system is asked for room for connections, and what it answers is what is used, on macOS and Windows too.",
    "system:started-by": "The request to uvx that started the program is found, also when launchers stand in between, as on Windows.",
    "system:lock": "A lock keeps other processes waiting, for no longer than is said, and is let go when its holder dies.",
    "system:beneath": "A file below a folder is never opened through a link, on Windows neither.",
    "system:folders": "The default folders of Linux, macOS and Windows are where each system keeps such things.",
    "system:network-disk": "A disk of another machine is told from one of this machine, on Windows and macOS too.",
    # processes
    "system:tree": "A process and everything below it can be ended, also what lost its parent and what has a session of its own.",
    "system:parent": "A program notices that the process which started it has died.",
    "system:stop": "A program is told to stop by the signals that its system has; one started with nohup outlives its terminal.",
    "system:pipe": "The end of a pipe is noticed, with or without a last word.",
    "system:files": "A process asks for the open files it wants and is told how many it may have.",
    "system:limits": "On Windows the limits of a worker are those of a job: memory always, time while content is looked at.",
    "embedded:end:guardian-killed": "When the guardian itself is killed, the embedded server and its kernels end all the same.",
    "embedded:start:noise": "What an interpreter prints when it starts does not keep the embedded server from starting.",
    # odd machines
    "odd:no-home": "Without a home folder every command works or says in one line what is missing; what is used instead is said.",
    "odd:no-home:safe": "A substitute for the home that somebody else put there is refused.",
    "odd:read-only-home": "Where the state folder cannot be made, doctor says so and tools answer with a code and a hint; --state-dir is enough to go on.",
    "odd:cluster-variables": "Variables that Kubernetes makes for a service named cellwright are ignored; misspelled settings are still refused.",
    "odd:wide-folder": "Started in a disk's root, the home or above it, and told of no workspace, it works in ~/notebooks, and says so in the log and in workspace_status.",
    "odd:whole-disk": "A whole disk that is named as the workspace is obeyed, and said in the log and in workspace_status.",
    "odd:gone-folder": "Started in a folder that is gone, it works all the same.",
    "listing:bounded": "A list of notebooks ends after so many folders, says so, and then claims no total.",
    "cli:lab": "`lab` says truly when its server ends, and ends by a signal with all that it started.",
    "cli:encoding": "A terminal that cannot show a letter is no reason to fail.",
    "cli:token:state-dir": "`token` keeps tokens where CELLWRIGHT_STATE_DIR says, as the server does.",
}
