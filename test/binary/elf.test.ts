// The ELF reader against readelf and nm, on programs compiled here and on the system's libc.

import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { address } from '../../src/address.js';
import { debugFileCandidates, debugLink, findDebugFile } from '../../src/binary/debug-file.js';
import { Elf } from '../../src/binary/elf.js';
import { Symbols } from '../../src/binary/symbols.js';
import { compileC, folder, nameOf, run, variants } from './compile.js';

const open = (path: string) => new Elf(readFileSync(path), path);
const plain = { optimise: '-O2', dwarf: 5, pie: 'pie' } as const;
const libc = run('gcc', '-print-file-name=libc.so.6').trim();

describe('sections and segments', () => {
  it.each([...variants.map((variant) => [nameOf(variant), compileC(variant)] as const), ['libc', libc] as const])(
    'are those of readelf: %s',
    (_, path) => {
      const elf = open(path);
      const sections = [
        ...run('readelf', '-SW', path).matchAll(/^ +\[ *(\d+)\] (\S*) +\S+ +([0-9a-f]{16}) ([0-9a-f]+) ([0-9a-f]+) /gm),
      ].map((match) => [match[2], ...match.slice(3).map((text) => BigInt(`0x${text}`))]);
      expect(sections.length).toBeGreaterThan(20);
      expect(
        elf.sections.map((section) => [
          section.name,
          section.address,
          BigInt(section.fileOffset),
          BigInt(section.size),
        ]),
      ).toEqual(sections);
      const segments = [
        ...run('readelf', '-lW', path).matchAll(/^ +LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+) 0x(\w+) (...) /gm),
      ].map((match) => match.slice(1));
      expect(
        elf.segments.map((segment) => [
          segment.fileOffset.toString(16).padStart(6, '0'),
          segment.address.toString(16).padStart(16, '0'),
          segment.fileSize.toString(16).padStart(6, '0'),
          segment.memorySize.toString(16).padStart(6, '0'),
          `R${segment.isWritable ? 'W' : ' '}${segment.isExecutable ? 'E' : ' '}`,
        ]),
      ).toEqual(segments);
    },
  );

  it('tell PIE from not', () => {
    expect(open(compileC({ ...plain, pie: 'pie' })).isPie).toBe(true);
    expect(open(compileC({ ...plain, pie: 'no-pie' })).isPie).toBe(false);
  });

  it('have the build-id that readelf prints', () => {
    const path = compileC(plain, '-Wl,--build-id');
    expect(open(path).buildId).toBe(/Build ID: (\w+)/.exec(run('readelf', '-n', path))?.[1]);
  });

  it('are inflated when compressed', () => {
    const whole = open(compileC(plain));
    const packedPath = join(folder, 'packed');
    run('objcopy', '--compress-debug-sections=zlib', whole.name, packedPath);
    const packed = open(packedPath);
    for (const name of ['.debug_info', '.debug_line', '.debug_str']) {
      expect(packed.section(name)?.flags).toBe((whole.section(name)?.flags ?? 0) | 0x800);
      expect(Buffer.compare(packed.contents(name) ?? Buffer.of(), whole.contents(name) ?? Buffer.of(1))).toBe(0);
    }
  });
});

describe('the load bias', () => {
  it('is what this process was loaded with', () => {
    const maps = readFileSync('/proc/self/maps', 'utf8').split('\n');
    const line = maps.find((text) => text.includes(' r-xp ') && /libc\.so\.6$/.test(text));
    const [, start, offset, path] = /^(\w+)-\w+ r-xp (\w+) \S+ \d+ +(.*)$/.exec(line ?? '') ?? [];
    const elf = open(path ?? '');
    const bias = elf.loadBias(address(`0x${start}`), Number(`0x${offset}`));
    const first = maps.find((text) => text.endsWith(path ?? '') && / 00000000 /.test(text));
    expect(bias).toBe(BigInt(`0x${first?.slice(0, first.indexOf('-'))}`));
  });

  it('is refused for an offset that no segment has', () => {
    const elf = open(compileC(plain));
    expect(() => elf.loadBias(address(0x1000), 1 << 30)).toThrow(
      expect.objectContaining({ code: 'FASTPROBE_BAD_ARGUMENT' }),
    );
  });
});

describe('symbols', () => {
  it.each(variants.map((variant) => [nameOf(variant), compileC(variant)] as const))(
    'are those of nm: %s',
    (_, path) => {
      const fromNm = run('nm', '--without-symbol-versions', path)
        .split('\n')
        .flatMap((line) => {
          const match = /^([0-9a-f]{16}) \w (\S+)$/.exec(line);
          return match === null ? [] : [`${BigInt(`0x${match[1]}`)} ${match[2]}`];
        });
      const ours = new Symbols([open(path)])
        .list()
        .filter((symbol) => symbol.table === '.symtab')
        .map((symbol) => `${symbol.address} ${symbol.name}`);
      expect(fromNm.length).toBeGreaterThan(30);
      expect(ours.sort()).toEqual(fromNm.sort());
    },
  );

  it('of a library are those of nm -D, with IFUNCs marked', () => {
    const fromNm = run('nm', '-D', '--defined-only', '--without-symbol-versions', libc)
      .split('\n')
      .flatMap((line) => {
        const match = /^([0-9a-f]{16}) (\w) (\S+)$/.exec(line);
        return match === null || match[2] === 'A' ? [] : [`${BigInt(`0x${match[1]}`)} ${match[2] === 'i'} ${match[3]}`];
      });
    const symbols = new Symbols([open(libc)]);
    const ours = symbols.list().map((symbol) => `${symbol.address} ${symbol.kind === 'ifunc'} ${symbol.name}`);
    expect(fromNm.length).toBeGreaterThan(2000);
    const known = new Set(ours);
    expect(fromNm.filter((line) => !known.has(line))).toEqual([]);
    expect(symbols.named('memcpy').some((symbol) => symbol.kind === 'ifunc')).toBe(true);
  });

  it('find the function around an address', () => {
    const symbols = new Symbols([open(compileC(plain))]);
    const push = symbols.named('queue_push')[0];
    expect(push).toMatchObject({ kind: 'function', binding: 'global' });
    if (push === undefined) return;
    expect(symbols.functionAt(address(push.address + 5n))?.name).toBe('queue_push');
    expect(symbols.functionAt(address(1))).toBeUndefined();
  });
});

describe('static bytes', () => {
  it('are those objdump shows, and zero past the file', () => {
    const path = compileC({ ...plain, pie: 'no-pie' });
    const elf = open(path);
    const push = new Symbols([elf]).named('queue_push')[0];
    const match = /<queue_push>:\n\s+\w+:\t((?:\w\w )+)/.exec(run('objdump', '-d', path));
    const bytes = (match?.[1] ?? '').trim().split(' ');
    expect(bytes.length).toBeGreaterThan(0);
    const read = elf.readStatic(push?.address ?? address(0), bytes.length);
    expect([...read].map((byte) => byte.toString(16).padStart(2, '0'))).toEqual(bytes);
    const errors = new Symbols([elf]).named('queue_errors')[0];
    expect([...elf.readStatic(errors?.address ?? address(0), 4)]).toEqual([0, 0, 0, 0]);
    expect(() => elf.readStatic(address(0x10), 4)).toThrow(
      expect.objectContaining({ code: 'FASTPROBE_ADDRESS_NOT_IN_FILE' }),
    );
  });
});

describe('separate debug files', () => {
  const whole = compileC(plain, '-Wl,--build-id');
  const strip = (directory: string) => {
    mkdirSync(join(folder, directory), { recursive: true });
    const stripped = join(folder, directory, 'program');
    const debug = join(folder, directory, 'program.debug');
    execFileSync('objcopy', ['--only-keep-debug', whole, debug]);
    execFileSync('objcopy', ['--strip-all', `--add-gnu-debuglink=${debug}`, whole, stripped]);
    return { stripped, debug };
  };

  it('are found beside the binary, by the name in it', () => {
    const { stripped, debug } = strip('beside');
    expect(debugLink(open(stripped))?.name).toBe('program.debug');
    expect(findDebugFile(open(stripped), stripped, { root: '/', directories: [] })?.name).toBe(debug);
  });

  it('are found by build-id under another root directory', () => {
    const { stripped, debug } = strip('rooted');
    const elf = open(stripped);
    const search = { root: join(folder, 'root'), directories: ['/usr/lib/debug'] };
    const wanted = debugFileCandidates(elf, '/bin/program', search)[0] ?? '';
    mkdirSync(dirname(wanted), { recursive: true });
    copyFileSync(debug, wanted);
    expect(findDebugFile(elf, '/bin/program', search)?.name).toBe(wanted);
  });

  it('of another build are not believed', () => {
    const { stripped, debug } = strip('other');
    copyFileSync(compileC({ ...plain, optimise: '-O0' }, '-Wl,--build-id'), debug);
    expect(findDebugFile(open(stripped), stripped, { root: '/', directories: [] })).toBeUndefined();
  });
});

describe('files that are no x86-64 ELF', () => {
  it('are refused with the reason', () => {
    const reject = (bytes: Uint8Array) =>
      expect(() => new Elf(bytes, 'x')).toThrow(expect.objectContaining({ code: 'FASTPROBE_NOT_X86_64_ELF' }));
    reject(Buffer.from('#!/bin/sh\necho this is a script\n'));
    reject(new Uint8Array(0));
    const wrongMachine = Buffer.from(readFileSync(compileC(plain)));
    wrongMachine.writeUInt16LE(183, 18);
    reject(wrongMachine);
  });
});
