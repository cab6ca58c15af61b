"""A real Slurm on one machine: a sweep as an array job, disturbed in every way.

Starts munged, slurmctld and slurmd of Debian's packages `slurm-wlm` and `munge` as root, in a folder
of its own, and submits a sweep of 24 runs as 4 tasks with `maxitive sweep --slurm`. A task is
canceled, another requeued, the node killed with all that runs on it, and the time limit of a task
is shorter than its longest run. One task is stopped (SIGSTOP), so that it can neither save nor end:
Slurm kills it at its time limit. In the end every run must be finished, none trained to its end
twice, and all weights and metrics must be those of the same sweep in one process, bit for bit.

    apt-get install slurm-wlm munge && cargo build --release -p maxitive
    python3 benches/slurm/cluster.py target/release/maxitive

With `--quick`, the form that `cargo xtask check` runs, it is 6 runs, 2 tasks and one requeue. It
exits with 77 and a reason where no Slurm can be had here: no root, no packages, or daemons that
cannot start, as in some containers.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

QUICK = "--quick" in sys.argv[1:]
TASKS = 2 if QUICK else 4
RUNS = 6 if QUICK else 24
# one run is longer than what a task has before its time limit of a minute, and the others are long
# enough for all disturbances; in the quick form it is only long enough to be met at work
EPOCHS = [160 if QUICK else 4800] + [20 if QUICK else 160] * (RUNS - 1)
# seconds until a step of the test is given up
PATIENCE = 300
# seconds that daemons and a first job have before the machine is one without Slurm
START = 30
# exit code of a test that cannot be made here
SKIPPED = 77

CONFIG = """
name = "tiny"
seed = SEED
data = { dataset = "fashion-mnist", out_of_domain = [] }
network = { name = "lenet" }
train = { epochs = EPOCHS, batch = 16 }
optimizer = { rule = "ivon", lr = 0.1 }
rows = [{ row = "mean", predictive = "point" }, { row = "samples", predictive = "ivon", samples = 2 }]
"""


def images(folder, part, count, salt):
    """Images with a bright column that tells the class, in the layout of Fashion-MNIST."""
    folder.mkdir(parents=True, exist_ok=True)
    pixels, labels = bytearray(), bytearray()
    for image in range(count):
        kind = image * 3 % 10
        labels.append(kind)
        for pixel in range(784):
            noise = ((image * 784 + pixel + salt) * 2654435761 & 0xFFFFFFFF) >> 26
            pixels.append(noise + (150 if pixel % 28 // 2 == kind + 2 else 0))
    head = struct.pack(">4B3I", 0, 0, 8, 3, count, 28, 28)
    (folder / f"{part}-images-idx3-ubyte").write_bytes(head + pixels)
    head = struct.pack(">4BI", 0, 0, 8, 1, count)
    (folder / f"{part}-labels-idx1-ubyte").write_bytes(head + labels)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what, ready, patience=PATIENCE):
    start = time.monotonic()
    while not (found := ready()):
        if time.monotonic() - start > patience:
            sys.exit(f"gave up waiting: {what}")
        time.sleep(0.2)
    return found


class NoSlurm(Exception):
    """There is no Slurm on this machine, and why."""


def program_of(name):
    """Where a program is; those of the daemons may not be on the path of a user."""
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def check_machine():
    """Says what is missing before anything is started."""
    if os.geteuid() != 0:
        raise NoSlurm("the daemons need root")
    needed = ["munged", "slurmctld", "slurmd", "sbatch", "scontrol", "scancel", "squeue", "sinfo"]
    missing = [name for name in needed if not program_of(name)]
    if missing:
        raise NoSlurm(f"{', '.join(missing)} missing; Debian's packages are slurm-wlm and munge")


class Cluster:
    """munged, slurmctld and slurmd in a folder, until it is left."""

    def __init__(self, folder):
        self.folder = folder
        self.host = socket.gethostname().split(".")[0]
        self.daemons = {}
        self.environment = dict(os.environ, SLURM_CONF=str(folder / "slurm.conf"))

    def __enter__(self):
        for name in ["state", "spool", "munge"]:
            (self.folder / name).mkdir(mode=0o700)
        munge = self.folder / "munge"
        (munge / "key").write_bytes(os.urandom(1024))
        (munge / "key").chmod(0o400)
        (self.folder / "slurm.conf").write_text(f"""
ClusterName=test
SlurmctldHost={self.host}(127.0.0.1)
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
AuthType=auth/munge
# how long a job that is requeued waits, among others
AuthInfo=socket={munge}/socket,cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0
# the node has as many processors as tasks, whatever the machine has
SlurmdParameters=config_overrides
ReturnToService=2
# what became of a task is told until the end
MinJobAge=3600
KillWait=10
# a node that boots has lost all tasks that began before, and not just those of more than 20 s ago
BatchStartTimeout=1
MessageTimeout=3
MpiDefault=none
JobRequeue=1
NodeName={self.host} NodeAddr=127.0.0.1 CPUs={TASKS} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""")
        try:
            self.start_daemons(munge)
        except BaseException:
            self.__exit__()
            raise
        return self

    def start_daemons(self, munge):
        """All three, until a first job has run to its end."""
        files = ["key-file=key", "socket=socket", "pid-file=pid", "log-file=log", "seed-file=seed"]
        options = [f"--{option.replace('=', f'={munge}/')}" for option in files]
        self.start("munged", "--foreground", "--force", *options)
        self.wait_to_start("munged does not start", (munge / "socket").exists)
        self.start("slurmctld", "-D", "-c")
        self.start("slurmd", "-D")
        idle = lambda: "idle" in self.call("sinfo", "-h", "-o", "%t")
        self.wait_to_start("slurmctld and slurmd give no idle node", idle)
        probe = self.folder / "probe"
        job = ["sbatch", "-o", "/dev/null", "--wrap", f"touch {shlex.quote(str(probe))}"]
        self.call(*job)
        self.wait_to_start("slurmd does not run a first job", probe.exists)

    def wait_to_start(self, what, ready):
        """Waits for a daemon; without it there is no Slurm here, which is no one's mistake."""
        start = time.monotonic()
        while not ready():
            dead = [name for name, process in self.daemons.items() if process.poll() is not None]
            if dead or time.monotonic() - start > START:
                logs = (self.folder / f"{name}.log" for name in dead or self.daemons)
                lines = [line for log in logs for line in log.read_text().splitlines()[-2:]]
                raise NoSlurm(f"{what}: {' / '.join(lines)}")
            time.sleep(0.1)

    def __exit__(self, *_):
        if "slurmctld" in self.daemons:
            command = ["scancel", "--me"]
            subprocess.run(command, env=self.environment, capture_output=True, timeout=60)
        for name in ["slurmd", "slurmctld", "munged"]:
            if not (process := self.daemons.pop(name, None)):
                continue
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()

    def start(self, name, *arguments):
        log = open(self.folder / f"{name}.log", "a")
        self.daemons[name] = subprocess.Popen(
            [program_of(name), *arguments],
            env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )

    def call(self, *command):
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        return done.stdout

    def must(self, *command):
        subprocess.run(command, env=self.environment, check=True)

    def kill_node(self):
        """Kills slurmd and all that runs on the node, at once; then the node boots."""
        daemon = self.daemons.pop("slurmd")
        victims = [daemon.pid, *self.below(daemon.pid)]
        # steps have left slurmd: they are known by their arguments
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit() and self.is_step(entry):
                victims += [int(entry.name), *self.below(int(entry.name))]
        for victim in set(victims):
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                pass
        daemon.wait()
        time.sleep(1)
        self.start("slurmd", "-D", "-b")

    def is_step(self, entry):
        try:
            words = (entry / "environ").read_bytes().split(b"\0")
            name = (entry / "comm").read_text().strip()
        except OSError:
            return False
        return name == "slurmstepd" and f"SLURM_CONF={self.folder}/slurm.conf".encode() in words

    def below(self, pid):
        """All processes that descend from one."""
        children = {}
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    stat = (entry / "stat").read_text()
                except OSError:
                    continue
                parent = int(stat.rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
        found, todo = [], [pid]
        while todo:
            todo += (below := children.get(todo.pop(), []))
            found += below
        return found

    def all_begun(self):
        """Whether all tasks that run have done so for longer than Slurm waits for one to begin."""
        ages = self.call("squeue", "-h", "-r", "-t", "R", "-o", "%M").split()
        seconds = lambda age: sum(int(part) * 60**i for i, part in enumerate(reversed(age.split(":"))))
        return ages and min(map(seconds, ages)) >= 10

    def timeouts(self, task):
        """How often a task was killed by Slurm at its time limit: 0 or 1."""
        return self.call("scontrol", "show", "job", task).count("JobState=TIMEOUT")

    def restarts(self, job):
        """How often each task of a job was queued again."""
        text = self.call("scontrol", "show", "job", job)
        return sum(int(count) for count in re.findall(r"Restarts=(\d+)", text))


def statuses(program, folder, environment):
    done = subprocess.run([program, "sweep", "--status", folder, "--json"], env=environment,
                          capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {"finished": 0, "running": 0}


def metrics(record):
    """What a record says of the results, without times."""
    kept = [{key: value for key, value in row.items() if key != "seconds"}
            for row in record["evaluations"]]
    curves = [{key: value for key, value in point.items() if key != "seconds"}
              for point in record["curves"]]
    return kept, curves


def compare(alone, shared):
    """The runs whose files differ."""
    different = []
    for folder in sorted(path for path in alone.iterdir() if (path / "record.json").exists()):
        other = shared / folder.name
        same = (other / "record.json").exists() and all(
            (folder / name).read_bytes() == (other / name).read_bytes()
            for name in ["best.safetensors", "last.safetensors"]
        ) and metrics(json.loads((folder / "record.json").read_text())) == metrics(
            json.loads((other / "record.json").read_text()))
        if not same:
            different.append(folder.name)
    return different


def endings(logs):
    """How often each run was finished, and how many were resumed, by the events of the tasks."""
    finished, resumed = {}, 0
    for log in sorted(logs.glob("*.log")):
        for line in log.read_text(errors="replace").splitlines():
            # a process that was killed leaves half a line
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if event["event"] == "finished":
                finished[event["run"]] = finished.get(event["run"], 0) + 1
            resumed += event["event"] == "started" and event["epochs_done"] > 0
    return finished, resumed


def stop_one(shared, look, say):
    """A task that is at work is stopped, so that it sees neither its clock nor a signal."""
    def at_work():
        for run in look().get("runs", []):
            try:
                holder = json.loads((shared / run["run"] / "lock").read_text())
                name = pathlib.Path(f"/proc/{holder['pid']}/comm").read_text().strip()
            except (OSError, ValueError):
                continue
            if run["state"] == "running" and name == "maxitive":
                return run, holder

    run, holder = wait_for("a task at work", at_work)
    os.kill(holder["pid"], signal.SIGSTOP)
    say(f"task {holder['job']} is stopped at work on {run['run']}: only Slurm can end it")
    return holder["job"]


def disturb_all(it, job, shared, look, say):
    """A canceled task, a requeued one, a killed node, and a stopped task, which is returned."""
    count = lambda state: look()[state]
    wait_for("all tasks at work", lambda: count("running") == TASKS)
    it.must("scancel", f"{job}_3")
    say("task 3 is canceled")
    wait_for("some runs", lambda: count("finished") >= 2)
    it.must("scontrol", "requeue", f"{job}_1")
    say("task 1 is requeued")
    wait_for("more runs", lambda: count("finished") >= 5)
    wait_for("tasks that Slurm knows to have begun", it.all_begun)
    it.kill_node()
    say("the node is killed with all its processes, and boots")
    return stop_one(shared, look, say)


def requeue_one(it, look, say):
    """The task that is at work on the long run is requeued, once there is something to go on from.

    On a fast machine the run may be finished before anybody sees it at work: then it is False."""
    def at_work():
        found = [run for run in look().get("runs", []) if run["run"].startswith("tiny-0")]
        begun = [run for run in found if run["state"] == "finished" or run["epochs_done"] > 0]
        return begun and begun[0]

    run = wait_for("a task at work on the long run", at_work)
    if run["state"] == "finished":
        say("the long run was finished before it could be disturbed")
        return False
    it.must("scontrol", "requeue", run["job"])
    say(f"task {run['job']} is requeued")
    return True


def main():
    words = [word for word in sys.argv[1:] if word != "--quick"]
    program = os.path.abspath(words[0] if words else "target/release/maxitive")
    check_machine()
    # blanks and quotes are part of the test
    place = pathlib.Path(tempfile.mkdtemp(prefix="maxitive slurm's "))
    try:
        good = run_in(place, program)
    finally:
        os.chdir("/")
        shutil.rmtree(place)
    print(f"slurm: {'1 passed, 0 failed' if good else '0 passed, 1 failed'}")
    sys.exit(0 if good else 1)


def run_in(place, program):
    """Whether all is as it must be."""
    begin = time.monotonic()
    say = lambda text: print(f"{time.monotonic() - begin:6.1f} s  {text}", flush=True)
    images(place / "data/fashion-mnist", "train", 120, 1)
    images(place / "data/fashion-mnist", "t10k", 30, 2)
    names = []
    for seed, epochs in enumerate(EPOCHS):
        names.append(f"tiny-{seed}.toml")
        text = CONFIG.replace("SEED", str(seed)).replace("EPOCHS", str(epochs))
        (place / names[-1]).write_text(text.replace('"tiny"', f'"tiny-{seed}"'))
    (place / "sweep.toml").write_text(f'name = "disturbed"\nconfigs = {json.dumps(names)}\n')
    os.chdir(place)
    data = ["--data-dir", "data", "--unverified", "--checkpoint-seconds", "0.5"]
    alone, shared = place / "alone", place / "shared runs"
    subprocess.run([program, "sweep", "sweep.toml", "--out", alone, *data, "--quiet"], check=True,
                   stdout=subprocess.DEVNULL)
    say(f"{RUNS} runs in one process are finished")
    with tempfile.TemporaryDirectory(prefix="slurm-") as state, Cluster(pathlib.Path(state)) as it:
        say("the cluster is up")
        look = lambda: statuses(program, shared, it.environment)
        count = lambda state: look()[state]
        submit = [program, "sweep", "sweep.toml", "--out", "shared runs", *data, "--json", "--slurm",
                  "--tasks", str(TASKS), "--threads", "1", "--time", "5m" if QUICK else "1m",
                  "--partition", "main", "--sbatch-arg=--comment=a b"]

        def submitted():
            done = subprocess.run(submit, env=it.environment, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{shlex.join(submit)}: {done.stderr}")
            return json.loads(done.stdout)["job"] if done.stdout else None

        job = submitted()
        least = {"requeues": 3, "limits": 1, "killed": 1, "resumed": 1}
        stopped = None
        if not QUICK:
            stopped = disturb_all(it, job, shared, look, say)
        elif requeue_one(it, look, say):
            # the run may end between the look and the requeue
            least = {"requeues": 1, "limits": 0, "killed": 0, "resumed": 0}
        else:
            least = {"requeues": 0, "limits": 0, "killed": 0, "resumed": 0}
        queue = lambda: it.call("squeue", "-h", "-o", "%i %t %M %r").strip()
        wait_for("an empty queue", lambda: not queue(), 4 * PATIENCE)
        restarts, killed = it.restarts(job), it.timeouts(stopped) if stopped else 0
        say(f"the queue is empty after {restarts} requeues, {count('finished')} runs are finished")
        again = 0
        while count("finished") < RUNS and again < 3:
            job = submitted()
            again += 1
            wait_for("an empty queue", lambda: not queue(), 4 * PATIENCE)
            restarts += it.restarts(job)
        late = submitted()
        found = look()
        logs = shared / "slurm"
        finished, resumed = endings(logs)
        limits = sum(log.read_text(errors="replace").count(words) for log in logs.glob("*.log")
                     for words in ["Time is over", "Stopping (SIGUSR1)"])
    different = compare(alone, shared)
    twice = sorted(run for run, times in finished.items() if times > 1)
    print(json.dumps({
        "runs": RUNS, "tasks": TASKS, "canceled": 0 if QUICK else 1,
        "nodes_killed": 0 if QUICK else 1, "requeues": restarts,
        "time_limits": limits, "killed_at_limit": killed, "submitted_again": again, "resumed": resumed,
        "finished": found["finished"], "trained_twice": twice, "different": different,
        "seconds": round(time.monotonic() - begin, 1),
    }))
    return (found["finished"] == RUNS and not twice and not different and late is None
            and restarts >= least["requeues"] and limits >= least["limits"]
            and killed >= least["killed"] and resumed >= least["resumed"])


try:
    main()
except NoSlurm as reason:
    print(f"no Slurm here: {reason}")
    sys.exit(SKIPPED)
