import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, writeFileSync } from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { pageBytes } from '../../src/host/memory/page-size.ts';
import {
  cgroupPathsOf,
  createProcfs,
  isKernelThread,
  type Procfs,
  processName,
  rssBytes,
} from '../../src/host/procfs.ts';
import { aDamagedTree, aTree, DAMAGE } from './tree.ts';

const isRoot = process.getuid?.() === 0;
const STALL = 'avg10=1.50 avg60=0.20 avg300=0.03 total=169362169';
const MEMINFO = [
  'MemTotal:       24684096 kB',
  'MemFree:        24000000 kB',
  'SwapFree:              4 kB',
  'Unevictable:          20 kB',
  'HugePages_Total:       3',
  'Hugetlb:            6144 kB',
  'Slab:                 10 kB',
  'KernelStack:           2 kB',
  'PageTables:            3 kB',
  'Percpu:                1 kB',
  'Active(anon):       150 kB',
  'Inactive(anon):      70 kB',
  'Shmem:               20 kB',
  ...['AnonPages', 'Cached', 'Buffers', 'SwapCached', 'SReclaimable'].map((name) => `${name}: 100 kB`),
];
/** With this much free, all of it has a name. */
const FREE_KIB = 24684096 - 6144 - 16 - 400;
/** As many pipes of 1 MiB as the argument says, all full. F_SETPIPE_SZ is 1031. */
const FILL_PIPES = `use Fcntl; my @kept; $| = 1;
for (1 .. $ARGV[0]) { pipe(my $r, my $w) or die; fcntl($w, 1031, 1 << 20) or die "$!";
  fcntl($w, F_SETFL, O_NONBLOCK); 1 while defined syswrite($w, "x" x (1 << 20)); push @kept, $r, $w }
print "full\\n"; <STDIN>`;
/** As Linux 6.18 writes it, shortened. */
function aZone(name: string, of: Readonly<Record<'min' | 'low' | 'managed' | 'protection', number | string>>): string {
  const pages = `  pages free     ${of.managed}\n        min      ${of.min}\n        low      ${of.low}\n`;
  const rest = `        managed  ${of.managed}\n        protection: (${of.protection})\n`;
  return `Node 0, zone ${name.padStart(8)}\n  per-node stats\n      nr_inactive_anon 315430\n${pages}${rest}  pagesets\n    cpu: 0\n              high:     1453\n`;
}
const FILES = {
  'proc/meminfo': `${MEMINFO.join('\n')}\n`,
  'proc/loadavg': '5.75 2.79 1.38 4/199 24326\n',
  'proc/vmstat': 'nr_free_pages 5685\noom_kill 3\nswap_ra 0\n',
  'proc/sys/kernel/pid_max': '32768\n',
  'proc/sys/kernel/threads-max': '192000\n',
  'proc/pressure/memory': `some ${STALL}\nfull avg10=0.00 avg60=0.00 avg300=100.00 total=1\n`,
  'proc/zoneinfo': [
    aZone('DMA', { min: 10, low: 13, managed: 3840, protection: '0, 3019, 23883, 23883' }),
    aZone('DMA32', { min: 2134, low: 2906, managed: 772917, protection: '0, 0, 20864, 20864' }),
    aZone('Normal', { min: 14750, low: 20091, managed: 5341184, protection: '0, 0, 0, 0' }),
    aZone('Movable', { min: 32, low: 32, managed: 0, protection: '0, 0, 0, 0' }),
  ].join(''),
  'sys/devices/system/cpu/online': '0-3,8,10-11\n',
} as const;
type Kind = Exclude<keyof Procfs, 'close' | 'psi'>;

describe('what the kernel reports about the machine', () => {
  it('memory, in bytes', () => {
    const procfs = createProcfs(aTree(FILES));
    expect(procfs.memTotalBytes()).toEqual(known(24684096 * 1024));
    expect(procfs.meminfo()).toMatchObject({
      value: {
        memTotalBytes: known(24684096 * 1024),
        swapFreeBytes: known(4096),
        unevictableBytes: known(20480),
        hugetlbPoolBytes: known(6144 * 1024),
        kernelBytes: known(16 * 1024),
        dirtyBytes: { known: false, why: 'absent' },
      },
    });
    procfs.close();
  });

  it('tasks, OOM kills and CPUs', () => {
    const procfs = createProcfs(aTree(FILES));
    expect(procfs.memoryStallMs()).toEqual(known(0.001));
    expect(procfs.tasks()).toEqual(known(199));
    expect(procfs.oomKills()).toEqual(known(3));
    expect(procfs.onlineCpus()).toEqual(known(7));
  });

  it('the smaller pid limit', () => {
    expect(createProcfs(aTree(FILES)).pidLimit()).toEqual(known(32768));
    const large = { ...FILES, 'proc/sys/kernel/pid_max': '4194304\n' };
    expect(createProcfs(aTree(large)).pidLimit()).toEqual(known(192000));
  });

  it.each(DAMAGE)('a pid limit that is $name is ignored; if both are, there is none', ({ text, why }) => {
    const pidMax = 'proc/sys/kernel/pid_max';
    expect(createProcfs(aDamagedTree(FILES, pidMax, text)).pidLimit()).toEqual(known(192000));
    const { 'proc/sys/kernel/threads-max': _, ...others } = FILES;
    expect(createProcfs(aDamagedTree(others, pidMax, text)).pidLimit()).toMatchObject({ known: false, why });
  });

  it('pressure, without `full` if the kernel has none', () => {
    const procfs = createProcfs(aTree({ ...FILES, 'proc/pressure/cpu': `some ${STALL}\n` }));
    const some = { avg10: 1.5, avg60: 0.2, avg300: 0.03 };
    expect(procfs.psi('memory')).toEqual(known({ some, full: { avg10: 0, avg60: 0, avg300: 100 } }));
    expect(procfs.psi('cpu')).toEqual(known({ some, full: null }));
    expect(procfs.psi('io')).toMatchObject({ known: false, why: 'absent' });
  });

  it('the reserve of all zones in bytes: watermark and protection, at most the size of the zone', () => {
    const procfs = createProcfs(aTree(FILES));
    const size = pageBytes();
    const page = size.known ? size.value : 0;
    const min = (3840 + 2134 + 20864 + 14750) * page;
    const low = (3840 + 2906 + 20864 + 20091) * page;
    expect(procfs.kernelsOwn()).toMatchObject({ value: { reserveBytes: { low, min } } });
    const here = createProcfs().kernelsOwn();
    if (!here.known) throw new Error(here.detail);
    expect(here.value.reserveBytes.low).toBeGreaterThan(here.value.reserveBytes.min);
    expect(here.value.reserveBytes.min).toBeGreaterThan(0);
  });

  it('what meminfo names nowhere, less the free pages that CPUs keep and what ZFS would give back', () => {
    const size = pageBytes();
    const page = size.known ? size.value : 0;
    const of = (files: Readonly<Record<string, string>>, restBytes: number): unknown => {
      const free = FREE_KIB - restBytes / 1024;
      const meminfo = FILES['proc/meminfo'].replace(/^MemFree:.*$/m, `MemFree: ${free} kB`);
      const own = createProcfs(aTree({ ...FILES, 'proc/meminfo': meminfo, ...files })).kernelsOwn();
      return own.known ? own.value.unnamedBytes : own;
    };
    const rest = 4_000 * page;
    expect(of({}, rest)).toBe(rest);
    const kept = FILES['proc/zoneinfo'].replaceAll('    cpu: 0\n', '    cpu: 0\n              count:    250\n');
    expect(of({ 'proc/zoneinfo': kept }, rest)).toBe(3_000 * page);
    expect(of({ 'proc/zoneinfo': kept }, 10 * page)).toBe(0);
    const arc = (name: string, value: number | string): string => `${name.padEnd(32)}4    ${value}\n`;
    const zfs = `13 1 0x01 147 39984 8466383573 1220938467832\n${arc('name', 'data')}${arc('c_min', 100 * page)}${arc('size', 1_100 * page)}${arc('hdr_size', 7)}`;
    expect(of({ 'proc/spl/kstat/zfs/arcstats': zfs }, rest)).toBe(3_000 * page);
    expect(of({ 'proc/spl/kstat/zfs/arcstats': 'size 4 12' }, rest)).toMatchObject({ known: false, why: 'malformed' });
  });

  it.skipIf(!isRoot)('what pipes hold, which meminfo names nowhere [needs root]', async () => {
    const unnamed = (): number => {
      const procfs = createProcfs();
      const own = procfs.kernelsOwn();
      procfs.close();
      if (!own.known) throw new Error(own.detail);
      return own.value.unnamedBytes;
    };
    const before = unnamed();
    const pipes = spawn('perl', ['-e', FILL_PIPES, '400'], { stdio: ['pipe', 'pipe', 'inherit'] });
    onTestFinished(() => void pipes.kill('SIGKILL'));
    await once(pipes.stdout, 'data');
    expect(unnamed() - before).toBeGreaterThan(300 * 2 ** 20);
  });

  it('page tables of virtual machines as kernel memory, which an older kernel does not report', () => {
    const kernelOf = (meminfo: string) => {
      const read = createProcfs(aTree({ ...FILES, 'proc/meminfo': meminfo })).meminfo();
      return read.known ? read.value.kernelBytes : read;
    };
    const before = kernelOf(FILES['proc/meminfo']);
    const after = kernelOf(`${FILES['proc/meminfo']}SecPageTables:      512 kB\n`);
    expect(before.known && after.known && after.value - before.value).toBe(512 * 1024);
  });

  it('numbers beyond 2^53 saturate', () => {
    const huge = '18446744073709551615';
    const root = aTree({
      'proc/meminfo': `MemTotal: ${huge} kB\nSlab: ${huge} kB\nKernelStack: 1 kB\nPageTables: 1 kB\nPercpu: 1 kB\n`,
      'proc/77/status': `VmRSS: ${huge} kB\n`,
      'proc/loadavg': `0.00 0.00 0.00 1/${huge} 7\n`,
      'proc/vmstat': `oom_kill ${huge}\n`,
    });
    const procfs = createProcfs(root);
    const meminfo = procfs.meminfo();
    const kernel = meminfo.known ? meminfo.value.kernelBytes : meminfo;
    const all = [procfs.memTotalBytes(), procfs.tasks(), procfs.oomKills(), kernel, rssBytes(77, root)];
    expect(all).toEqual(all.map(() => known(Number.MAX_SAFE_INTEGER)));
  });
});

const TEXT_DAMAGE: readonly { readonly file: keyof typeof FILES; readonly of: Kind; readonly text: string }[] = [
  { file: 'proc/meminfo', of: 'memTotalBytes', text: '' },
  { file: 'proc/meminfo', of: 'memTotalBytes', text: 'MemTotal:       2468' },
  { file: 'proc/meminfo', of: 'memTotalBytes', text: 'MemTotal: many kB\n' },
  { file: 'proc/meminfo', of: 'memTotalBytes', text: 'MemTotal: 5 MB\n' },
  { file: 'proc/meminfo', of: 'memTotalBytes', text: 'MemTotal: 5\n' },
  { file: 'proc/meminfo', of: 'memTotalBytes', text: 'MemTotal: 5 kB kB\n' },
  { file: 'proc/loadavg', of: 'tasks', text: '' },
  { file: 'proc/loadavg', of: 'tasks', text: '5.75 2.79 1.38 4/19' },
  { file: 'proc/loadavg', of: 'tasks', text: '5.75 2.79 1.38 4 24326\n' },
  { file: 'proc/loadavg', of: 'tasks', text: '5.75 2.79 1.38 4/max 24326\n' },
  { file: 'proc/loadavg', of: 'tasks', text: '5.75 2.79 1.38 4/199 24326\nmore\n' },
  { file: 'proc/vmstat', of: 'oomKills', text: '' },
  { file: 'proc/vmstat', of: 'oomKills', text: 'oom_kill 3' },
  { file: 'proc/vmstat', of: 'oomKills', text: 'oom_kill max\n' },
  { file: 'proc/zoneinfo', of: 'kernelsOwn', text: '' },
  { file: 'proc/zoneinfo', of: 'kernelsOwn', text: '        low      48' },
  { file: 'proc/zoneinfo', of: 'kernelsOwn', text: 'Node 0, zone DMA\n' },
  { file: 'sys/devices/system/cpu/online', of: 'onlineCpus', text: '' },
  { file: 'sys/devices/system/cpu/online', of: 'onlineCpus', text: '0-' },
  { file: 'sys/devices/system/cpu/online', of: 'onlineCpus', text: '0-3,\n' },
  { file: 'sys/devices/system/cpu/online', of: 'onlineCpus', text: 'all\n' },
  { file: 'sys/devices/system/cpu/online', of: 'onlineCpus', text: '0,3-1\n' },
];

describe('damaged files', () => {
  it.each(TEXT_DAMAGE)('$file with $text is malformed', ({ file, of, text }) => {
    expect(createProcfs(aTree({ ...FILES, [file]: text }))[of]()).toMatchObject({
      known: false,
      why: 'malformed',
    });
  });

  it.each([
    ['proc/meminfo', 'memTotalBytes'],
    ['proc/meminfo', 'meminfo'],
    ['proc/loadavg', 'tasks'],
    ['proc/vmstat', 'oomKills'],
    ['proc/zoneinfo', 'kernelsOwn'],
    ['sys/devices/system/cpu/online', 'onlineCpus'],
  ] as const)('%s missing is absent, a directory in its place unreadable', (file, of) => {
    expect(createProcfs(aDamagedTree(FILES, file, undefined))[of]()).toMatchObject({
      known: false,
      why: 'absent',
    });
    expect(createProcfs(aDamagedTree(FILES, file, null))[of]()).toMatchObject({ known: false, why: 'unreadable' });
  });

  it.each([
    '',
    'some',
    `some ${STALL}`,
    `full ${STALL}\n`,
    `some ${STALL}\nfull avg10=1.5`,
    `some ${STALL}\nfull \n`,
    `some ${STALL}\nfull ${STALL}\nfull ${STALL}\n`,
    'some avg10=max avg60=0.20 avg300=0.03 total=1\n',
    `some ${STALL} more=1\n`,
  ])('pressure %j is malformed', (text) => {
    const psi = createProcfs(aTree({ 'proc/pressure/memory': text })).psi('memory');
    expect(psi).toMatchObject({ known: false, why: 'malformed' });
  });

  it('a line of vmstat that this kernel lacks is absent', () => {
    const procfs = createProcfs(aTree({ 'proc/vmstat': 'nr_free_pages 5\nthp_oom_kill 4\n' }));
    expect(procfs.oomKills()).toMatchObject({ known: false, why: 'absent' });
  });

  it.skipIf(process.getuid?.() === 0)('no permission is unreadable [not as root]', () => {
    const root = aTree(FILES);
    chmodSync(`${root}/proc/meminfo`, 0);
    expect(createProcfs(root).memTotalBytes()).toMatchObject({ known: false, why: 'unreadable' });
  });

  it('a valid text is read after an invalid one, on the same descriptor', () => {
    const root = aTree({ ...FILES, 'proc/loadavg': 'x' });
    const procfs = createProcfs(root);
    expect(procfs.tasks()).toMatchObject({ why: 'malformed' });
    writeFileSync(`${root}/proc/loadavg`, FILES['proc/loadavg']);
    expect(procfs.tasks()).toEqual(known(199));
  });
});

describe('a process', () => {
  it('has a name and memory', () => {
    expect(processName(process.pid)).toMatchObject({ known: true });
    const rss = rssBytes(process.pid);
    expect(rss.known && rss.value).toBeGreaterThan(20 * 2 ** 20);
    expect(isKernelThread(process.pid)).toEqual(known(false));
  });

  it('may have any name', () => {
    expect(processName(5, aTree({ 'proc/5/comm': ') S \n\u001b[31m\n' }))).toEqual(known(') S \n\u001b[31m'));
  });

  it('is absent once it is gone', () => {
    const pid = 2 ** 30;
    const all = [processName(pid), rssBytes(pid), cgroupPathsOf(pid), isKernelThread(pid)];
    expect(all).toMatchObject(all.map(() => ({ known: false, why: 'absent' })));
  });

  it('is a kernel thread by its flags, whatever its name looks like', () => {
    const stat = (name: string, flags: number): string => `5 (${name}) S 2 0 0 0 -1 ${flags} 0 0\n`;
    const root = aTree({
      'proc/5/stat': stat('kworker/0:1', 69238880),
      'proc/6/stat': stat('a) S 2 0 0 0 -1 69238880 0', 4194304),
      'proc/7/stat': '7 (cut',
    });
    expect(isKernelThread(5, root)).toEqual(known(true));
    expect(isKernelThread(6, root)).toEqual(known(false));
    expect(isKernelThread(7, root)).toMatchObject({ why: 'malformed' });
  });

  it('has 0 without memory of its own', () => {
    expect(rssBytes(5, aTree({ 'proc/5/status': 'Name:\tkthreadd\nThreads:\t1\n' }))).toEqual(known(0));
    const status = aTree({ 'proc/5/status': 'Name:\tx\nVmRSS:\t    12 kB\n' });
    expect(rssBytes(5, status)).toEqual(known(12288));
  });

  it('is in a cgroup of each hierarchy, whose path may contain colons', () => {
    const root = aTree({ 'proc/5/cgroup': '9:name=systemd:/a\n4:cpu,cpuacct:/b:c\n0::/d e\n' });
    expect(cgroupPathsOf(5, root)).toEqual(
      known(
        new Map([
          ['name=systemd', '/a'],
          ['cpu', '/b:c'],
          ['cpuacct', '/b:c'],
          ['', '/d e'],
        ]),
      ),
    );
  });

  it.each(['', '0::/a', '0:/a\n', 'x::/a\n', '0::a\n', '0::/a\n\n'])('a list of cgroups %j is malformed', (text) => {
    expect(cgroupPathsOf(5, aTree({ 'proc/5/cgroup': text }))).toMatchObject({ known: false, why: 'malformed' });
  });
});
