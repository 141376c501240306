"""ReFrame checks that measure Slingshot NICs with cxidiag: a pair of nodes, a node, a partition.

docs/reframe.md shows how a site adapts them. With the launcher `local`, they use software NICs of
this machine, unless a device is named.
"""
import json
import re
import shlex

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.exceptions import PerformanceError, ReframeError, SanityError
from reframe.core.logging import getlogger
from reframe.utility import ScopedDict

LATENCY_TOOLS = ['write-lat', 'read-lat', 'atomic-lat', 'send-lat']
BANDWIDTH_TOOLS = ['write-bw', 'read-bw', 'atomic-bw', 'send-bw']

# For each launcher, a shell command for the host of the first task. PBS has not been tried.
FIRST_HOST = {
    'local': 'echo localhost',
    'srun': 'scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1',
    'mpiexec': 'head -n 1 "$PBS_NODEFILE"',
}

# Part of the time, in percent, for which a client may wait for its CPU. `cxidiag compare` has the
# same limit.
MOST_CPU_WAIT = 5

# Classes of the pairs of a survey.
CLASSES = ['loopback', 'same node', 'same switch', 'same group', 'other group', 'no location']


class Cxidiag(rfm.RunOnlyRegressionTest, pin_prefix=True):
    """The common part of the checks: reads the document of cxidiag, and gets its metrics."""

    #: The cxidiag program: a name in PATH, or a path.
    program = variable(str, value='cxidiag')
    #: Further options of cxidiag.
    options = variable(typ.List[str], value=[])
    #: Whether a verdict that is neither good nor bad (exit status 4) passes.
    accept_undecided = variable(bool, value=False)

    valid_systems = ['*']
    valid_prog_environs = ['*']
    exclusive_access = True
    num_tasks_per_node = 1
    sourcesdir = None
    tags = {'cxidiag', 'network'}
    keep_files = ['result.json']
    # Value and unit of each performance variable.
    metrics = {}

    @property
    def launcher(self):
        return self.job.launcher.registered_name

    @property
    def is_local(self):
        return self.launcher == 'local'

    def set_arguments(self, *arguments):
        """Sets the arguments, which may have characters that the shell of the job would change."""
        self.executable_opts = [shlex.quote(argument) for argument in [*arguments, *self.options]]

    def set_launcher_options(self, *options):
        """Starts tasks of Slurm without a plugin for MPI, which would wait for them."""
        if self.launcher == 'srun':
            self.job.launcher.options += ['--mpi=none', *options]
        elif self.launcher == 'mpiexec':
            self.job.launcher.options += ['--ppn', '1']

    def read_result(self):
        """Returns the document that the run has written, in the current directory."""
        return self.read_results(is_one=True)[0]

    def read_results(self, is_one=False):
        """Returns the documents that the run has written: one, or one on each line."""
        try:
            with open('result.json', encoding='utf-8') as file:
                texts = [file.read()] if is_one else file.readlines()
            results = [json.loads(text) for text in texts]
        except FileNotFoundError:
            raise SanityError(f'cxidiag wrote no result: {self.first_error()}') from None
        except ValueError as error:
            raise SanityError(f'result.json is not valid JSON: {error}') from None
        if not results:
            raise SanityError(f'cxidiag measured nothing: {self.first_error()}')
        version = results[0]['schema_version']
        if version != 1:
            raise SanityError(f'result.json has schema version {version}: these checks read 1')
        self.metrics = {}
        return results

    def first_error(self):
        """Returns the first error of cxidiag on standard error, or else the last line there.

        The first one is the cause: then the other side is ended, and prints that.
        """
        with open(sn.evaluate(self.stderr), encoding='utf-8', errors='replace') as file:
            lines = [line.strip() for line in file if line.strip()]
        errors = [line for line in lines if re.match(r'cxidiag \S+: error: ', line)]
        return errors[0] if errors else (lines or ['standard error is empty'])[-1]

    def require(self, verdict, text):
        """Fails unless the verdict is good, or undecided where the site accepts this."""
        if verdict == 'undecided' and self.accept_undecided:
            self.note(text)
        elif verdict != 'good':
            raise SanityError(f'the verdict is {verdict}: {text}')

    def note(self, text):
        """Shows a remark now, in the report of failures, and in the report file."""
        getlogger().warning(f'{self.display_name}: {text}')
        if text not in self.descr:
            self.descr += f' [{text}]'

    def note_software_nic(self, is_software):
        if is_software:
            self.note('software NIC: simulated on this machine, no Slingshot hardware is involved')

    def add_metric(self, name, value, unit):
        """Adds a performance variable. `value` is in seconds, or in bytes or packets per second."""
        scale = {'us': 1e6, 'GB/s': 1e-9, 'Mpkt/s': 1e-6}[unit]
        self.metrics[name] = (round(value * scale, 6), unit)

    def add_metric_of(self, tool, size, what, value):
        """Adds a performance variable of a tool: write_lat_8_p50, write_bw_65536_bw."""
        unit = {'rate': 'Mpkt/s'}.get(what, 'us' if tool in LATENCY_TOOLS else 'GB/s')
        self.add_metric(identifier(tool, size, what), value, unit)

    @run_before('performance')
    def set_performance_variables(self):
        self.perf_variables = {
            name: sn.make_performance_function(lambda value=value: value, unit)
            for name, (value, unit) in self.metrics.items()
        }

    @run_before('performance')
    def check_references(self):
        """Fails for a reference that ReFrame would ignore: it looks up what was measured only."""
        if getattr(self.reference, 'index', None):
            return
        # References of a file are an ordinary dictionary.
        scopes = self.reference
        if not isinstance(scopes, ScopedDict):
            scopes = ScopedDict(dict(scopes))
        for name, reference in scopes.scope(self.current_partition.fullname).items():
            if name not in self.metrics:
                if self.may_lack(name):
                    continue
                known = ', '.join(sorted(self.metrics)) or 'nothing'
                raise PerformanceError(f'reference {name!r}: not measured; measured: {known}')
            reference = getattr(reference, 'data', reference)
            unit = self.metrics[name][1]
            if len(reference) > 3 and reference[3] not in (None, unit):
                raise PerformanceError(
                    f'reference {name!r}: the unit is {unit!r}, not {reference[3]!r}'
                )

    def may_lack(self, name):
        """Whether a run may lack the performance variable of a reference."""
        return False


@rfm.simple_test
class CxidiagPair(Cxidiag):
    """Measures between two nodes: the first task is the server, the second one the client."""

    descr = 'RDMA between two nodes'
    tool = parameter(LATENCY_TOOLS + BANDWIDTH_TOOLS, loggable=True)
    #: Sizes, or ranges of sizes such as 8:4096. Atomic tools have the size of their type.
    latency_sizes = variable(str, value='8')
    bandwidth_sizes = variable(str, value='65536')
    #: Time to measure each size.
    duration = variable(str, value='5s')
    #: NIC of the client; `first`: the first NIC of the job, or else cxi0.
    device = variable(str, value='first')
    #: NIC of the server; `same`: as the client's.
    server_device = variable(str, value='same')

    num_tasks = 2
    time_limit = '10m'
    sourcesdir = 'src'
    executable = 'bash'

    @run_before('run')
    def set_command(self):
        try:
            first_host = FIRST_HOST[self.launcher]
        except KeyError:
            known = ', '.join(FIRST_HOST)
            raise ReframeError(f'launcher {self.launcher!r}: not one of {known}') from None
        # If a task fails, the other one ends too.
        self.set_launcher_options('-K1')
        client, server = self.device, self.server_device
        if self.is_local and client == 'first':
            client, server = 'soft1', 'soft0'
        elif server == 'same':
            server = client
        arguments = [self.tool, f'--duration={self.duration}', '--json=result.json']
        if 'atomic' not in self.tool:
            is_latency = self.tool in LATENCY_TOOLS
            sizes = self.latency_sizes if is_latency else self.bandwidth_sizes
            arguments.append(f'--size={sizes}')
        self.set_arguments(*arguments)
        self.executable_opts[:0] = ['pair', self.program, f'"$({first_host})"', server, client]

    @sanity_function
    def is_good(self):
        result = self.read_result()
        if result['device']:
            self.note_software_nic(result['device']['is_software'])
        # `error` has a message and a hint unless the status is `complete`.
        problem = result['error']
        if problem:
            hint = f' (hint: {problem["hint"]})' if problem['hint'] else ''
            verdict = 'bad: ' if result['status'] == 'unmet' else ''
            # The launcher ends the client if the server fails.
            why = f': {self.first_error()}' if result['status'] == 'interrupted' else ''
            raise SanityError(f'{self.tool}: {verdict}{problem["message"]}{why}{hint}')
        waited = max(size['cpu_wait_percent'] or 0 for size in result['results'])
        if waited > MOST_CPU_WAIT:
            self.note(f'the client waited for its CPU for {waited:.0f} % of the time: other '
                      'programs make the results worse')
        for size in result['results']:
            self.add_metrics(size)
        return True

    def add_metrics(self, size):
        def add(what, value):
            self.add_metric_of(self.tool, size['size_bytes'], what, value)

        if size['latency']:
            values = {of['percent']: of['value_ns'] for of in size['latency']['percentiles']}
            add('p50', values[50] / 1e9)
            add('p99', values[99] / 1e9)
        else:
            add('bw', size['bandwidth']['bandwidth_bytes_per_s'])
            add('rate', size['bandwidth']['packet_rate_packets_per_s'])

    def may_lack(self, name):
        """All tools have the same references: those of other tools are not about this run."""
        others = (tool for tool in LATENCY_TOOLS + BANDWIDTH_TOOLS if tool != self.tool)
        return name.startswith(tuple(identifier(tool, '') for tool in others))


@rfm.simple_test
class CxidiagCheck(Cxidiag):
    """Checks the NICs of a node. `reframe --distribute` runs it on each node of a partition."""

    descr = 'health of the NICs of a node'
    #: NICs; empty: the NICs of the job, or else all of the node.
    devices = variable(typ.List[str], value=[])

    num_tasks = 1
    time_limit = '5m'

    @run_before('run')
    def set_command(self):
        self.set_launcher_options()
        devices = self.devices or (['soft0'] if self.is_local else [])
        self.executable = self.program
        self.set_arguments('check', '--local', '--json=result.json', *devices)

    @sanity_function
    def is_good(self):
        result = self.read_result()
        self.note_software_nic(any(device['is_software'] for device in result['devices']))
        verdict = {0: 'good', 3: 'bad', 4: 'undecided'}.get(result['exit_status'], 'failed')
        self.require(verdict, f'{result["host_name"]}: {result["summary"]}')
        units = {
            'loopback-write': 'us', 'loopback-read': 'us',
            'write-bandwidth': 'GB/s', 'read-bandwidth': 'GB/s',
        }
        for device in result['devices']:
            for item in device['items']:
                if item['code'] in units and item['number'] is not None:
                    name = identifier(device['name'], item['code'])
                    self.add_metric(name, item['number'], units[item['code']])
        return True


@rfm.simple_test
class CxidiagLoopback(Cxidiag):
    """Measures each NIC of a node by itself. `reframe --distribute` runs it on each node."""

    descr = 'bandwidth of each NIC of a node to itself'
    #: Whether each NIC is measured with each GPU of the node.
    gpus = variable(bool, value=False)
    #: Sizes, or ranges of sizes such as 64K:1M.
    sizes = variable(str, value='524288')
    #: Time to measure each size.
    duration = variable(str, value='2s')

    num_tasks = 1
    time_limit = '10m'

    @run_before('run')
    def set_command(self):
        self.set_launcher_options()
        self.executable = self.program
        every = '--all-gpus' if self.gpus else '--all-nics'
        self.set_arguments('loopback-bw', every, f'--size={self.sizes}',
                           f'--duration={self.duration}', '--json=result.json')

    @sanity_function
    def is_good(self):
        runs = self.read_results()
        self.note_software_nic(any(run['device']['is_software'] for run in runs))
        bad = [run for run in runs if run['error']]
        if bad:
            names = '; '.join(f'{run_name(run)}: {run["error"]["message"]}' for run in bad)
            raise SanityError(f'loopback-bw on {runs[0]["host"]["name"]}: {names}')
        for run in runs:
            for size in run['results']:
                name = identifier(run_name(run), 'loopback_bw', size['size_bytes'])
                self.add_metric(name, size['bandwidth']['bandwidth_bytes_per_s'], 'GB/s')
        return True


@rfm.simple_test
class CxidiagSurvey(Cxidiag):
    """Measures the NICs of a partition with each other, and names what is slow."""

    descr = 'all NICs of a partition'
    tools = variable(typ.List[str], value=['write-lat', 'write-bw'])
    #: Number of software NICs with the launcher `local`.
    loopback = variable(int, value=5)

    #: All idle nodes; reframe --flex-alloc-nodes selects others.
    num_tasks = 0
    time_limit = '30m'
    # Performance variables that some nodes have.
    possible = frozenset()

    @run_before('run')
    def set_command(self):
        self.set_launcher_options('--no-kill', '--wait=30')
        nodes = '--bad-nodes=bad-nodes'
        if self.is_local:
            self.num_tasks = 1
            nodes = f'--loopback={self.loopback}'
        self.executable = self.program
        self.set_arguments('survey', *self.tools, nodes, '--json=result.json')

    @sanity_function
    def is_good(self):
        result = self.read_result()
        self.note_software_nic(result['is_software'])
        causes = [
            f'{cause["word"]}: {part_name(result["roster"], cause["unit"])}'
            for cause in result['verdict']['culprits'] if cause['word'] != 'transient'
        ]
        self.require(result['conclusion'], '; '.join([result['summary'], *causes]))
        tests = result['setup']['tests']
        for population in result['verdict']['populations']:
            test = tests[population['test']]
            # Bandwidths are in bytes per second, latencies in nanoseconds.
            scale, worst = (1, 'min') if test['of_bandwidth'] else (1e-9, 'max')
            # The percentiles are 1, 5, 25, 50, 75, 95 and 99.
            for what, value in [('median', population['percentiles'][3]),
                                ('worst', population[worst])]:
                what = identifier(population['class'], what)
                self.add_metric_of(test['tool'], test['size_bytes'], what, value * scale)
        self.possible = {
            identifier(test['tool'], test['size_bytes'], pairs, what)
            for test in tests for pairs in CLASSES for what in ['median', 'worst']
        }
        return True

    def may_lack(self, name):
        """The nodes of a job determine which classes of pairs there are."""
        return name in self.possible


def run_name(run):
    """Returns the NIC of a run of loopback-bw, and its GPU if it has one: `cxi0 gpu1`."""
    gpu = run['options']['tx_gpu']
    return run['device']['name'] if gpu is None else f'{run["device"]["name"]} gpu{gpu}'


def part_name(roster, unit):
    """Returns the name of a part of the cluster, as the text of a survey has it."""
    def nic_name(index):
        nic = roster['nics'][index]
        return f'{roster["nodes"][nic["node"]]["host"]} {nic["device"]}'

    (kind, at), = unit.items()
    if kind == 'nic':
        return nic_name(at)
    if kind == 'node':
        return roster['nodes'][at]['host']
    if kind == 'switch':
        return f'switch {at["group"]:03}.{at["switch"]:02}'
    if kind == 'group':
        return f'group {at:03}'
    if kind == 'group_pair':
        return f'links between groups {at[0]:03} and {at[1]:03}'
    return f'{nic_name(at["initiator"])} to {nic_name(at["target"])}'


def identifier(*words):
    """Returns the name of a performance variable: `write_lat_8_p50`."""
    return '_'.join(str(word) for word in words).replace('-', '_').replace(' ', '_')
