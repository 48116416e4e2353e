"""The keeper: a small process beside each job. It outlives the daemon and writes down how the job ended.

Above it stands its guard, which does nothing but wait for it. Orphans of a job come to its keeper, and
when that one is killed, to the guard, which ends them: whatever session or environment they have made
for themselves, they cannot choose whom they come to.

Run as `python -I -S keeper/__main__.py RUN_FOLDER`, in a session of its own. A run folder holds

    launch.json   what to run, written by whoever starts the keeper
    lock          held by the one keeper that may run it
    keeper.json   the keeper and the job's main process; once it is there, this run is never begun again
    stop          made when the job is asked to stop; if it is there before the job runs, it never does
    door          a socket: the daemon shows and types here what people do with the job's consoles
    exec/1/       what the first command that was run beside the job has printed
    exit.json     how it ended; there exactly once unless the keeper itself was killed

It starts in some 20 ms: these modules import little, and of ours only each other, relatively, as they
run under another name in the keeper than in a daemon. So what it shares with processes.py (reading
/proc, signalling) is here.
"""

LAUNCH = "launch.json"
LOCK = "lock"
KEEPER = "keeper.json"
STOP = "stop"
EXIT = "exit.json"
DOOR = "door"
BESIDE = "exec"
TROUBLE = "keeper.err"
