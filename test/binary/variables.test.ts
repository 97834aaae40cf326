// Variables against gdb: which are in scope at every instruction, and their values while the program is stepped.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { address } from '../../src/address.js';
import { openBinary } from '../../src/binary/binary.js';
import { strip, typeText } from '../../src/binary/type-text.js';
import type { Variable } from '../../src/binary/variables.js';
import {
  compile,
  compileC,
  compileCxx,
  fewVariants,
  flagsOf,
  gdbPython,
  hasClang,
  hasGdb,
  nameOf,
  oldVariants,
  run,
  programs as sources,
  type Variant,
} from './compile.js';
import { instructionsOf, labelOf, scopeScript, stepThrough } from './step.js';

const values = (variant: Variant, ...flags: string[]) =>
  compile('gcc', ['values.c'], [...flagsOf(variant), ...flags], 'values');

const optimised: Variant = { optimise: '-O2', dwarf: 5, pie: 'pie' };
const plain: Variant = { optimise: '-O0', dwarf: 5, pie: 'pie' };

const programs = [
  ...[...fewVariants, ...oldVariants].map((variant) => ({
    name: nameOf(variant),
    path: values(variant),
  })),
  { name: 'two units, gcc -O2', path: compileC(optimised) },
  { name: 'two units, gcc -O0', path: compileC(plain) },
  {
    name: 'gcc -O2 -fno-omit-frame-pointer',
    path: values(optimised, '-fno-omit-frame-pointer'),
  },
  {
    name: 'gcc -O0 -fomit-frame-pointer',
    path: values(plain, '-fomit-frame-pointer'),
  },
  ...(hasClang() ? ['-O0', '-O2'] : []).flatMap((optimise) =>
    [4, 5].map((dwarf) => ({
      name: `clang ${optimise} DWARF ${dwarf}`,
      path: compile('clang', ['values.c'], [optimise, `-gdwarf-${dwarf}`], 'clang'),
    })),
  ),
];

describe.skipIf(!hasGdb())('variables against gdb', () => {
  let scopes = 0;
  let compared = 0;
  let absent = 0;
  const refused = new Map<string, number>();

  it.each(programs)('names in scope at every instruction: $name', ({ path }) => {
    const binary = openBinary(path);
    const places = instructionsOf(path);
    const theirs = gdbPython(path, scopeScript, places) as string[][];
    const differences = places.flatMap((at, index) => {
      const ours = binary.variablesAt(address(at)).map(labelOf);
      const wanted = theirs[index] ?? [];
      const isAgreed =
        new Set(ours).size === ours.length &&
        ours.every((name) => wanted.includes(name) || wanted.includes(`${name}?`)) &&
        wanted.every((name) => name.endsWith('?') || ours.includes(name));
      return isAgreed ? [] : [`0x${at.toString(16)} gdb: ${wanted.join(' ')} ours: ${ours.join(' ')}`];
    });
    scopes += places.length;
    expect(differences).toEqual([]);
  });

  it.each(programs)('values at every instruction: $name', ({ path }) => {
    const report = stepThrough(path, 1);
    compared += report.compared;
    absent += report.absent;
    for (const [reason, count] of Object.entries(report.refused)) {
      refused.set(reason, (refused.get(reason) ?? 0) + count);
    }
    expect(report.differences).toEqual([]);
    expect(report.steps).toBeGreaterThan(200);
  });

  it('were compared in numbers worth it', () => {
    console.log(`scopes compared with gdb: ${scopes}; values: ${compared}; optimised out for both: ${absent}`);
    console.log(`not compared: ${[...refused].map(([reason, count]) => `${count} ${reason}`).join('; ')}`);
    expect(scopes).toBeGreaterThan(4000);
    expect(compared).toBeGreaterThan(40000);
  });
});

describe('variables', () => {
  const binary = openBinary(values(plain));
  const at = (name: string, offset = 0n) => {
    const [facts] = binary.functionsNamed(name);
    if (facts === undefined) throw new Error(`${name} has no code`);
    return address(facts.bodyStart + offset);
  };
  const lineOf = (text: string) => {
    const lines = readFileSync(join(sources, 'values.c'), 'utf8').split('\n');
    return lines.findIndex((line) => line.includes(text)) + 1;
  };
  const siteOf = (of: typeof binary, text: string) => {
    const [site] = of.sitesOfLine('values.c', lineOf(text)).sites;
    if (site === undefined) throw new Error(`${text} has no code`);
    return site.address;
  };

  it('have name, kind, type and a location', () => {
    const [argc] = binary.variablesAt(at('main')).filter(({ name }) => name === 'argc');
    expect(argc).toMatchObject({
      kind: 'parameter',
      type: { kind: 'base', name: 'int', size: 4 },
      location: { kind: 'frame', base: 'rbp' },
      file: join(sources, 'values.c'),
      line: lineOf('int main('),
    });
  });

  it('hide those of outer blocks', () => {
    const inner = binary.variableAt(siteOf(binary, '*out += (int)n;'), 'n');
    expect(typeText(inner.type)).toBe('long int');
    const outer = binary.variableAt(siteOf(binary, 'return local[0] + n + calls;'), 'n');
    expect(outer).toMatchObject({ kind: 'parameter', type: { name: 'int' } });
  });

  it('may be static, global or of another unit', () => {
    const symbol = (name: string) => binary.symbols.list().find((each) => each.name.startsWith(name))?.address;
    expect(binary.variableAt(at('shadows'), 'calls')).toMatchObject({
      kind: 'local',
      location: { kind: 'address', address: symbol('calls.') },
    });
    expect(binary.variableAt(at('main'), 'counter')).toMatchObject({
      kind: 'global',
      location: { kind: 'address', address: symbol('counter') },
    });
    expect(binary.globalsAt(at('main')).map(({ name }) => name)).toEqual(
      expect.arrayContaining(['counter', 'total', 'segment', 'ratio', 'greeting', 'grid']),
    );
    const two = openBinary(compileC(plain));
    const [main] = two.functionsNamed('main');
    const [pushes] = two.symbols.named('pushes');
    expect(two.variableAt(main?.bodyStart ?? address(0), 'pushes')).toMatchObject({
      location: { kind: 'address', address: pushes?.address },
    });
    const [errors] = two.symbols.named('queue_errors');
    expect(two.variableAt(main?.bodyStart ?? address(0), 'queue_errors').location).toEqual({
      kind: 'address',
      address: errors?.address,
    });
  });

  it('of the function into which another was inlined are in the next frame', () => {
    const fast = openBinary(values(optimised));
    const [copy] = fast.inlinedCopiesOf('sum_of_squares');
    const place = copy?.entry ?? address(0);
    const depth = fast.inlinedAt(place).findIndex(({ name }) => name === 'sum_of_squares');
    const names = (frame: number) => fast.variablesAt(place, { frame }).map(({ name }) => name);
    expect(names(depth)).toEqual(expect.arrayContaining(['a', 'b', 'first', 'second']));
    expect(names(depth)).not.toContain('argv');
    expect(names(depth + 1)).toEqual(expect.arrayContaining(['argc', 'argv', 'line', 'out']));
    expect(names(depth + 2)).toEqual([]);
  });

  it('that are optimised out say where they are', () => {
    const fast = openBinary(values(optimised));
    const somewhere = instructionsOf(values(optimised)).flatMap((place) =>
      fast
        .variablesAt(address(place))
        .flatMap(({ name, location }) => ('availableAt' in location ? [{ name, location }] : []))
        .filter(({ location }) => location.availableAt.length > 0),
    );
    expect(somewhere.length).toBeGreaterThan(100);
    for (const { name, location } of somewhere) {
      for (const range of location.availableAt) {
        // Other code may have been inlined there: then the variable is in an outer frame.
        const all = [0, 1, 2].flatMap((frame) => fast.variablesAt(range.low, { frame }));
        const isThere = (each: Variable) => each.name === name && !('availableAt' in each.location);
        expect(all.some(isThere), `${name} at ${range.low}`).toBe(true);
        expect(range.firstLine).toBeGreaterThan(0);
        expect(range.lastLine).toBeGreaterThanOrEqual(range.firstLine ?? 0);
      }
    }
  });

  it('of a thread are where its instructions take them from', () => {
    for (const variant of fewVariants) {
      const path = values(variant);
      const program = openBinary(path);
      const [main] = program.functionsNamed('main');
      const code = run('objdump', '-d', path);
      const written = [...code.matchAll(/%fs:0x(f{8}\w+)/g)].map((match) => BigInt.asIntN(64, BigInt(`0x${match[1]}`)));
      const locations = ['thread_mark', 'thread_calls'].map(
        (name) => program.variableAt(main?.bodyStart ?? address(0), name).location,
      );
      // Variables with a value come before those without.
      const offsets = [...new Set(written)].sort((a, b) => Number(a - b)).map(Number);
      expect(locations).toEqual(offsets.map((offset) => ({ kind: 'thread', offset })));
    }
    const library = openBinary(compileC(plain, '-shared', '-fPIC'));
    const [push] = library.functionsNamed('queue_push');
    expect(library.variableAt(push?.bodyStart ?? address(0), 'last_id').location).toEqual({
      kind: 'unsupported',
      reason: 'it is a thread-local variable of a shared library',
      availableAt: [],
    });
  });

  it('that are unknown say so', () => {
    expect(() => binary.variableAt(at('main'), 'pionter')).toThrow(
      expect.objectContaining({ code: 'FASTPROBE_VARIABLE_UNKNOWN', hint: expect.stringContaining("'pointer'") }),
    );
    const both = openBinary(compile('gcc', ['private-a.c', 'private-b.c', 'private-main.c'], ['-O0'], 'private'));
    const [main] = both.functionsNamed('main');
    expect(() => both.variableAt(main?.bodyStart ?? address(0), 'counter')).toThrow(
      expect.objectContaining({ hint: expect.stringContaining('2 other source files') }),
    );
  });

  it('of a namespace are found by their full name', () => {
    const cxx = openBinary(compileCxx(plain));
    const [main] = cxx.functionsNamed('main');
    const found = cxx.variableAt(main?.bodyStart ?? address(0), 'geometry::count');
    const [symbol] = cxx.symbols.named('_ZN8geometryL5countE');
    expect(found.location).toEqual({ kind: 'address', address: symbol?.address });
    expect(strip(cxx.variableAt(main?.bodyStart ?? address(0), 'reference').type)).toMatchObject({ kind: 'reference' });
  });
});
