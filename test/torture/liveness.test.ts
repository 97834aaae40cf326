// Everything that liveness calls dead is really overwritten, in real programs, and nobody notices.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadDecoder } from '../../src/isa/decode.js';
import {
  allRegisters,
  arithmeticFlags,
  formatFlags,
  formatRegisters,
  registerSet,
  rsp,
} from '../../src/isa/registers.js';
import { outcomeOf, type Site, Subject, withRoom } from '../isa/rewrite.js';
import { isLong, rounds } from '../support/length.js';
import { compileTarget } from '../support/targets.js';

beforeAll(loadDecoder);

const folder = mkdtempSync(join(tmpdir(), 'fastprobe-liveness-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Marsaglia's xorshift: the same sites in every run. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
}

function isInstalled(tool: string): boolean {
  try {
    execFileSync(tool, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Puts the trampolines where nothing around the sites is in reach. */
const farAway = '-Wl,--section-start=.fp_far=0x100000000000';
const spoil = ({ dead }: Site) => dead;

const hasAvx2 = / avx2 /.test(readFileSync('/proc/cpuinfo', 'utf8'));

const builds = [
  ['gcc', '-O0'],
  ['gcc', '-O1'],
  ['gcc', '-O2'],
  ['gcc', '-O2', '-fno-pie', '-no-pie'],
  ['gcc', '-O2', '-fomit-frame-pointer', '-fcf-protection=full', '-march=x86-64-v3'],
  ['gcc', '-O3'],
  ['gcc', '-Os'],
  // With all that it uses of libc: startup, printf, qsort, string functions in assembly.
  ['gcc', '-O2', '-static', '-no-pie', '-Wl,--eh-frame-hdr'],
  ...(isLong ? [['gcc', '-O2', '-static', '-no-pie', '-Wl,--eh-frame-hdr', farAway]] : []),
  ['gcc', '-O0', '-fno-pie', '-no-pie', farAway],
  ['gcc', '-O2', '-fno-pie', '-no-pie', farAway],
  ['gcc', '-O3', '-no-pie', '-fPIC', farAway],
  ['clang', '-O0'],
  ['clang', '-O2'],
  ['clang', '-O3', '-fno-pie', '-no-pie'],
].filter(([compiler = '', ...flags]) => isInstalled(compiler) && (hasAvx2 || !flags.includes('-march=x86-64-v3')));

const script = `
work() { local a=$1; for i in {1..300}; do a=$(( (a * 31 + i) % 100003 ))
  case $((a % 5)) in 0) a=$((a + 1));; 1) a=$((a ^ 7));; *) ;; esac; done; echo $a; }
work 5; x=$(work 9 | while read -r line; do echo "\${line//1/z}"; done); printf '%05d %s\n' 42 "$x"
declare -A map=([a]=1 [b]=2); for key in "\${!map[@]}"; do echo "$key=\${map[$key]}"; done
[[ hello =~ h(.*)o ]] && echo "\${BASH_REMATCH[1]}"; trap 'echo left' EXIT; read -r words <<< "here it is"; echo "$words"`;

/** Sites that do not overlap, taken from the front. */
function apart(sites: readonly Site[]): Site[] {
  const taken: Site[] = [];
  const used = new Set<bigint>();
  for (const site of sites) {
    const bytes = site.displaced.flatMap(({ address, length }) =>
      Array.from({ length }, (_, i) => address + BigInt(i)),
    );
    if (bytes.some((byte) => used.has(byte))) continue;
    for (const byte of bytes) used.add(byte);
    taken.push(site);
  }
  return taken;
}

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const copy = [...items];
  for (let i = copy.length - 1; i > 0; i--) {
    const j = random() % (i + 1);
    [copy[i], copy[j]] = [copy[j] as T, copy[i] as T];
  }
  return copy;
}

const describeSite = ({ address, dead }: Site) =>
  `${address.toString(16)}: ${formatRegisters(dead.registers)} ${formatFlags(dead.flags)}`;

describe('dead registers and flags', () => {
  for (const [compiler = 'gcc', ...flags] of builds) {
    const name = `${compiler} ${flags.join(' ')}`;
    const room = flags.includes(farAway) ? '.fp_far' : '.fp_room';
    let analysed: Subject | undefined;
    const subject = () => {
      analysed ??= new Subject(compileTarget('checksums', flags, compiler));
      return analysed;
    };

    it(`can be overwritten at single sites of ${name}`, () => {
      const all = subject();
      const random = randomFrom(20_26);
      const expected = outcomeOf(all.image.path);
      expect(expected).toMatch(/\n0 null$/);
      const program = join(folder, 'single');
      const wrong: string[] = [];
      const chosen = shuffled(all.sites, random).slice(0, rounds({ short: 8, long: 60 }));
      for (const site of chosen) {
        all.rewrite([site], program, { spoil, random, room });
        if (outcomeOf(program) !== expected) wrong.push(describeSite(site));
      }
      expect(wrong).toEqual([]);
    });

    it(`can be overwritten at all sites of ${name} at once`, () => {
      const all = subject();
      const random = randomFrom(31);
      const expected = outcomeOf(all.image.path);
      expect(expected).toMatch(/\n0 null$/);
      const program = join(folder, 'all');
      for (let round = rounds({ short: 2, long: 20 }); round > 0; round--) {
        const sites = apart(shuffled(all.sites, random));
        const done = all.rewrite(sites, program, { spoil, random, room });
        expect(done.length).toBeGreaterThan(200);
        expect(outcomeOf(program)).toBe(expected);
      }
    });
  }

  for (const [level, room] of [
    ['-O0', '.fp_room'],
    ['-O2', '.fp_room'],
    ['-O3', '.fp_far'],
  ] as const) {
    it(`can be overwritten at all sites of a program that throws exceptions, g++ ${level}`, () => {
      const original = join(folder, `throws${level}`);
      const source = join(import.meta.dirname, '..', 'isa', 'throws.cc');
      execFileSync('g++', [
        level,
        '-fno-pie',
        '-no-pie',
        ...(room === '.fp_far' ? [farAway] : []),
        source,
        '-o',
        original,
      ]);
      const all = new Subject(original);
      const random = randomFrom(5);
      const expected = outcomeOf(original);
      const program = join(folder, 'throwing');
      for (let round = rounds({ short: 3, long: 30 }); round > 0; round--) {
        const done = all.rewrite(apart(shuffled(all.sites, random)), program, { spoil, random, room });
        expect(done.length).toBeGreaterThan(50);
        expect(outcomeOf(program)).toBe(expected);
      }
    });
  }

  it.runIf(isLong)('can be overwritten at all sites of bash, more than 50,000, while it runs a script', () => {
    const original = join(folder, 'bash');
    const bash = new Subject(original, [withRoom('/bin/bash', original, 1 << 24)]);
    const random = randomFrom(3);
    const args = ['--norc', '-c', script];
    const expected = outcomeOf(original, { args });
    expect(expected).toMatch(/left\n\n0 null$/);
    const program = join(folder, 'patched-bash');
    for (let round = 0; round < 5; round++) {
      const done = bash.rewrite(apart(shuffled(bash.sites, random)), program, { spoil, random });
      expect(done.length).toBeGreaterThan(50_000);
      expect(outcomeOf(program, { args })).toBe(expected);
    }
  });

  it('is a test that notices: live ones cannot be overwritten', () => {
    const subject = new Subject(compileTarget('checksums', ['-O2'], 'gcc'));
    const random = randomFrom(7);
    const expected = outcomeOf(subject.image.path);
    const program = join(folder, 'live');
    const alive = ({ dead }: Site) => ({
      registers: allRegisters & ~dead.registers & ~registerSet(rsp),
      flags: arithmeticFlags & ~dead.flags,
    });
    const chosen = shuffled(subject.sites, random).slice(0, rounds({ short: 20, long: 100 }));
    const noticed = chosen.filter((site) => {
      subject.rewrite([site], program, { spoil: alive, random });
      return outcomeOf(program, { timeout: 500 }) !== expected;
    });
    expect(noticed.length).toBeGreaterThan(chosen.length * 0.7);
  });
});
