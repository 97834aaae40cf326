// Sizes, members, bit-fields, enumerators and the spelling of types against gdb, type by type.

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { openBinary } from '../../src/binary/binary.js';
import { DebugInfo } from '../../src/binary/debug-info.js';
import { Elf } from '../../src/binary/elf.js';
import { indexNames } from '../../src/binary/names.js';
import { sizeOf, strip, typeText } from '../../src/binary/type-text.js';
import { type Type, Types } from '../../src/binary/types.js';
import {
  compile,
  compileC,
  compileCxx,
  flagsOf,
  gdbPython,
  hasClang,
  hasGdb,
  nameOf,
  oldVariants,
  type Variant,
  variants,
} from './compile.js';

const allTypes = (variant: Variant) =>
  compile('gcc', ['types.c'], [...flagsOf(variant), '-fno-eliminate-unused-debug-types'], 'types');

/** For each name: what gdb knows of the type, as lines; or none if it does not know the name. */
const dump = `
def size(type):
  kind = type.strip_typedefs().unqualified()
  if kind.code in (gdb.TYPE_CODE_VOID, gdb.TYPE_CODE_FUNC, gdb.TYPE_CODE_METHOD):
    return "none"
  # gdb has no other sign for what is not complete.
  return str(type.sizeof or "none")
answer = []
for name in asked:
  try:
    type = gdb.lookup_type(name)
  except gdb.error:
    answer.append([])
    continue
  lines = ["size " + size(type)]
  inner = type.strip_typedefs().unqualified()
  if inner.code == gdb.TYPE_CODE_ENUM:
    lines += ["%s = %d" % (field.name, field.enumval & (1 << 64) - 1) for field in inner.fields()]
  elif inner.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
    for field in inner.fields():
      if not hasattr(field, "bitpos"):
        continue
      what = "base" if field.is_base_class else (field.name or "-")
      lines.append("%s at %d bits %d | %s" % (what, field.bitpos, field.bitsize, str(field.type).replace(" ", "")))
  else:
    lines.append(str(inner).replace(" ", "").removeprefix("_Atomic"))
  answer.append(lines)
`;

/** The same lines as the script's. */
function describeType(type: Type): string[] {
  const lines = [`size ${sizeOf(type) || 'none'}`];
  const inner = strip(type);
  switch (inner.kind) {
    case 'enum':
      return [...lines, ...inner.enumerators.map(({ name, value }) => `${name} = ${BigInt.asUintN(64, value)}`)];
    case 'struct':
    case 'class':
    case 'union':
      return [
        ...lines,
        ...inner.bases.map(({ offset, type: base }) => `base at ${(offset ?? 0) * 8} bits 0 | ${written(base)}`),
        ...inner.members.map(
          ({ name, offset, bits, type: of }) =>
            `${name ?? '-'} at ${bits?.offset ?? offset * 8} bits ${bits?.size ?? 0} | ${written(of)}`,
        ),
      ];
    default:
      return [...lines, written(inner)];
  }
}

/** The spelling that gdb prefers for what gcc calls `long unsigned int`. */
function preferred(text: string): string {
  return text
    .replaceAll(/\b(long long|long|short) unsigned int\b/g, 'unsigned $1')
    .replaceAll(/\b(long|short) int\b/g, '$1')
    .replaceAll('unsigned __int128', 'unsigned int __int128')
    .replaceAll('volatile const', 'const volatile');
}

function written(type: Type): string {
  return preferred(typeText(type)).replaceAll(' ', '');
}

/** True for the type of nullptr, for which gdb knows no size. */
function isNull(type: Type): boolean {
  const inner = strip(type);
  return inner.kind === 'base' && inner.name === 'decltype(nullptr)';
}

/** Every type with a name, and how gdb is asked for it. */
function namedTypes(path: string, isCxx: boolean): { query: string; type: Type }[] {
  const info = new DebugInfo(new Elf(readFileSync(path), path));
  const names = indexNames(info);
  const types = new Types(info, () => names);
  const all = new Map<string, Type>();
  for (const [name, offsets] of names.types) {
    for (const offset of offsets) {
      const type = types.at(offset);
      const prefix = names.prefixes.get(offset) ?? '';
      if (prefix !== '' && !name.startsWith(prefix)) continue;
      const needsWord = !isCxx && (type.kind === 'struct' || type.kind === 'union' || type.kind === 'enum');
      const query = needsWord ? `${type.kind} ${name}` : preferred(name);
      // gdb knows types inside functions only when it stops there, and means its own by `complex`.
      if (name.startsWith('local_') || name === 'complex' || isNull(type)) continue;
      if (!all.has(query)) all.set(query, type);
    }
  }
  return [...all].map(([query, type]) => ({ query, type }));
}

describe.skipIf(!hasGdb())('types against gdb', () => {
  let facts = 0;
  const clangs = hasClang() ? ['clang'] : [];
  const cases = [
    ...variants.filter(({ optimise, pie }) => optimise === '-O0' && pie === 'pie'),
    ...oldVariants,
  ].flatMap((variant) => [
    { name: `system headers, ${nameOf(variant)}`, path: allTypes(variant), isCxx: false },
    { name: `C, ${nameOf(variant)}`, path: compileC(variant), isCxx: false },
    {
      name: `C++, ${nameOf(variant)}`,
      path: compileCxx(variant, '-fno-eliminate-unused-debug-types'),
      isCxx: true,
    },
    ...clangs.map((clang) => ({
      name: `system headers, clang DWARF ${variant.dwarf}`,
      path: compile(clang, ['types.c'], [`-gdwarf-${variant.dwarf}`, '-fno-eliminate-unused-debug-types'], clang),
      isCxx: false,
    })),
  ]);

  it.each(cases)('sizes, members and enumerators: $name', ({ path, isCxx }) => {
    const named = namedTypes(path, isCxx);
    const theirs = gdbPython(
      path,
      dump,
      named.map(({ query }) => query),
    ) as string[][];
    // gdb spells C++ types with all their namespaces: only what C spells is compared by its text.
    const comparable = (line: string) => (isCxx ? line.replace(/ \| .*|^[^ ]+$|^.*::(?=\w+ = )/, '') : line);
    const differences: string[] = [];
    const unknown: string[] = [];
    for (const [index, { query, type }] of named.entries()) {
      const expected = theirs[index] ?? [];
      if (expected.length === 0) {
        unknown.push(query);
        continue;
      }
      const ours = describeType(type).map(comparable).join('\n');
      const wanted = expected.map(comparable).join('\n');
      facts += expected.length;
      if (ours !== wanted) differences.push(`${query}\ngdb:\n${wanted}\nours:\n${ours}`);
    }
    expect(differences).toEqual([]);
    // Types inside functions of templates can't be told from the others by their names.
    expect(unknown.slice(isCxx ? 20 : 0)).toEqual([]);
  });

  it('were compared in numbers worth it', () => {
    console.log(`sizes, members and enumerators compared with gdb: ${facts}`);
    expect(facts).toBeGreaterThan(5000);
  });
});

describe('types by name', () => {
  const plain: Variant = { optimise: '-O2', dwarf: 5, pie: 'pie' };
  const binary = openBinary(compileC(plain));

  it('show their members', () => {
    const type = strip(binary.typeNamed('queue_t'));
    if (type.kind !== 'struct') throw new Error(`queue_t is a ${type.kind}`);
    expect(type.members.map(({ name, offset, type: of }) => `${offset} ${typeText(of, name)}`)).toEqual([
      '0 struct item *head',
      '8 struct item *tail',
      '16 size_t len',
      '24 size_t cap',
      '32 int (*compare)(const struct item *, const struct item *)',
      '40 struct opaque *secret',
      '48 short int grid[3][4]',
    ]);
  });

  it('are found in every spelling of C', () => {
    for (const name of ['unsigned long', 'long unsigned int', 'unsigned long int', 'long unsigned']) {
      expect(binary.typeNamed(name)).toMatchObject({ kind: 'base', size: 8, encoding: 'unsigned' });
    }
    expect(binary.typeNamed('struct item')).toBe(binary.typeNamed(' item '));
    expect(() => binary.typeNamed('union item')).toThrow(expect.objectContaining({ code: 'FASTPROBE_TYPE_UNKNOWN' }));
  });

  it('that are only declared in one unit are completed from another', () => {
    const [dispatch] = binary.functionsNamed('dispatch');
    const queue = strip(binary.typeNamed('queue_t', dispatch === undefined ? {} : { near: dispatch.entry }));
    const secret = queue.kind === 'struct' ? queue.members.find(({ name }) => name === 'secret')?.type : undefined;
    const opaque = secret?.kind === 'pointer' ? strip(secret.target) : undefined;
    expect(opaque).toMatchObject({ kind: 'struct', name: 'opaque', isComplete: true, size: 8 });
  });

  it('that two units define differently are those of the unit asked for, and else not believed', () => {
    const path = compile('gcc', ['private-a.c', 'private-b.c', 'private-main.c'], ['-O0'], 'private');
    const two = openBinary(path);
    const sizes = ['a_size', 'b_size'].map((name) => {
      const [facts] = two.functionsNamed(name);
      return facts && sizeOf(two.typeNamed('struct state', { near: facts.entry }));
    });
    expect(sizes).toEqual([4, 24]);
    const [main] = two.functionsNamed('main');
    const pointer = main && two.variableAt(main.bodyStart, 'unknown').type;
    expect(pointer?.kind === 'pointer' && strip(pointer.target)).toMatchObject({ kind: 'struct', isComplete: false });
  });

  it('that are unknown lead to a hint', () => {
    expect(() => binary.typeNamed('struct itemm')).toThrow(
      expect.objectContaining({ code: 'FASTPROBE_TYPE_UNKNOWN', hint: expect.stringContaining('item') }),
    );
  });

  it('are refused with the reason where debug information is split or missing', () => {
    for (const dwarf of [4, 5] as const) {
      const split = openBinary(compileC({ ...plain, dwarf }, '-gsplit-dwarf'));
      const refused = expect.objectContaining({
        code: 'FASTPROBE_DEBUG_INFO_UNSUPPORTED',
        message: expect.stringContaining('split DWARF'),
      });
      expect(() => split.typeNamed('queue_t')).toThrow(refused);
      expect(() => split.sitesOfLine('queue.c', 20)).toThrow(refused);
    }
    const bare = openBinary(compileC(plain, '-g0'));
    expect(() => bare.typeNamed('queue_t')).toThrow(expect.objectContaining({ code: 'FASTPROBE_DEBUG_INFO_MISSING' }));
  });

  it('of type units that are not read are said to be so', () => {
    const types = openBinary(compileC({ ...plain, dwarf: 4 }, '-fdebug-types-section'));
    const [push] = types.functionsNamed('queue_push');
    const pointer = push && types.variableAt(push.entry, 'q').type;
    const target = pointer?.kind === 'pointer' ? strip(pointer.target) : undefined;
    expect(target).toMatchObject({ kind: 'unsupported', reason: expect.stringContaining('type unit') });
    const five = openBinary(compileC(plain, '-fdebug-types-section'));
    expect(sizeOf(five.typeNamed('queue_t'))).toBe(72);
  });
});
