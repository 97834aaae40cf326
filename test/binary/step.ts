// Steps a program in gdb and evaluates our locations there, with gdb's registers and memory, beside gdb's own values.

import { readFileSync } from 'node:fs';
import { address } from '../../src/address.js';
import { openBinary } from '../../src/binary/binary.js';
import { DebugInfo } from '../../src/binary/debug-info.js';
import { Elf } from '../../src/binary/elf.js';
import type { Location } from '../../src/binary/locations.js';
import { sizeOf } from '../../src/binary/type-text.js';
import { FunctionFinder } from '../../src/binary/unit-functions.js';
import type { Variable } from '../../src/binary/variables.js';
import { gdbPython, run } from './compile.js';

/** The address of every instruction of the functions that have debug information. */
export function instructionsOf(path: string): number[] {
  const info = new DebugInfo(new Elf(readFileSync(path), path));
  const finder = new FunctionFinder(info);
  const ranges = info.units.flatMap((unit) => finder.ofUnit(unit).list.flatMap((entry) => entry.ranges));
  return [...run('objdump', '-d', '--no-show-raw-insn', path).matchAll(/^ +([0-9a-f]+):\t/gm)]
    .map((match) => Number.parseInt(match[1] ?? '', 16))
    .filter((at) => ranges.some(({ low, high }) => at >= low && at < high));
}

/**
 * What gdb lists for an address: the variables of the innermost function, with a `?` for each that has no location
 * anywhere. Of these it lists too many: those of blocks in an inlined function are taken for the function's own.
 */
export const scopeScript = `
answer = []
def own(symbol):
  return symbol.addr_class not in (gdb.SYMBOL_LOC_TYPEDEF, gdb.SYMBOL_LOC_LABEL, gdb.SYMBOL_LOC_BLOCK)
for pc in asked:
  names = []
  block = gdb.block_for_pc(pc)
  while block is not None and not block.is_global and not block.is_static:
    for symbol in block:
      if own(symbol):
        lost = "?" if symbol.addr_class == gdb.SYMBOL_LOC_OPTIMIZED_OUT else ""
        names.append("%s:%d%s" % (symbol.name, symbol.line, lost))
    if block.function is not None:
      break
    block = block.superblock
  answer.append(sorted(set(names)))
`;

const stepScript = `
import struct
first = int(gdb.parse_and_eval("(long)&main"))
gdb.execute("break *main", to_string=True)
gdb.execute("run", to_string=True)
bias = int(gdb.parse_and_eval("(long)&main")) - first
inferior = gdb.selected_inferior()
unsigned = {size: gdb.lookup_type(name) for size, name in ((1, "unsigned char"), (2, "unsigned short"), (4, "unsigned int"), (8, "unsigned long"))}
wrap = (1 << 64) - 1

def read(at, size):
  return bytes(inferior.read_memory(at & wrap, size))

class Lost(Exception):
  pass

def leaves(value):
  """The bytes of a value that gdb knows; None for each that was optimised out."""
  kind = value.type.strip_typedefs()
  size = kind.sizeof
  # A struct of which one part is lost counts as lost: its parts tell.
  isWhole = kind.code not in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION, gdb.TYPE_CODE_ARRAY)
  if isWhole and value.is_optimized_out:
    return [None] * size
  if value.address is not None:
    return list(read(int(value.address), size))
  if kind.code == gdb.TYPE_CODE_FLT:
    if size not in (4, 8):
      raise Lost("long double in a register")
    return list(struct.pack("<f" if size == 4 else "<d", float(value)))
  if kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
    result = [None] * size
    for field in kind.fields():
      if field.bitsize or field.bitpos % 8:
        raise Lost("bit-fields in a register")
      part = leaves(value[field])
      result[field.bitpos // 8 : field.bitpos // 8 + len(part)] = part
    return result
  if kind.code == gdb.TYPE_CODE_ARRAY:
    low, high = kind.range()
    return [byte for index in range(low, high + 1) for byte in leaves(value[index])]
  return list((int(value) & (1 << 8 * size) - 1).to_bytes(size, "little"))

def register(name):
  if name.startswith("xmm"):
    halves = frame.read_register(name)["v2_int64"]
    return b"".join((int(halves[half]) & wrap).to_bytes(8, "little") for half in (0, 1))
  if name.startswith("st"):
    raise Lost("x87 register")
  return (int(frame.read_register(name)) & wrap).to_bytes(8, "little")

def number(name):
  return int.from_bytes(register(name)[:8], "little")

def signed(value):
  return (value & wrap) - (1 << 64) if value & 1 << 63 else value & wrap

def evaluate(ops):
  stack = []
  for each in ops:
    op = each["op"]
    if op == "push": stack.append(int(each["value"]) & wrap)
    elif op == "push-address": stack.append(int(each["address"]) + bias)
    elif op == "register": stack.append(number(each["register"]) + each["offset"] & wrap)
    elif op == "load": stack.append(int.from_bytes(read(stack.pop(), each["size"]), "little"))
    elif op == "extend":
      mask = (1 << 8 * each["size"]) - 1
      kept = stack.pop() & mask
      stack.append((kept - mask - 1 if each["isSigned"] and kept > mask >> 1 else kept) & wrap)
    elif op == "pick": stack.append(stack[-1 - each["index"]])
    elif op == "dup": stack.append(stack[-1])
    elif op == "drop": stack.pop()
    elif op == "over": stack.append(stack[-2])
    elif op == "swap": stack[-1], stack[-2] = stack[-2], stack[-1]
    elif op == "rotate": stack[-1], stack[-2], stack[-3] = stack[-2], stack[-3], stack[-1]
    elif op == "absolute": stack.append(abs(signed(stack.pop())))
    elif op == "negate": stack.append(-stack.pop() & wrap)
    elif op == "not": stack.append(~stack.pop() & wrap)
    else:
      b, a = stack.pop(), stack.pop()
      if op == "and": c = a & b
      elif op == "or": c = a | b
      elif op == "xor": c = a ^ b
      elif op == "plus": c = a + b
      elif op == "minus": c = a - b
      elif op == "multiply": c = a * b
      elif op == "divide": c = abs(signed(a)) // abs(signed(b)) * (1 if (signed(a) < 0) == (signed(b) < 0) else -1)
      elif op == "modulo": c = a % b
      elif op == "shift-left": c = a << b
      elif op == "shift-right": c = a >> b
      elif op == "shift-right-signed": c = signed(a) >> b
      elif op == "equal": c = int(signed(a) == signed(b))
      elif op == "unequal": c = int(signed(a) != signed(b))
      elif op == "less": c = int(signed(a) < signed(b))
      elif op == "at-most": c = int(signed(a) <= signed(b))
      elif op == "greater": c = int(signed(a) > signed(b))
      elif op == "at-least": c = int(signed(a) >= signed(b))
      else: raise Lost("operation " + op)
      stack.append(c & wrap)
  return stack[-1]

def ours(place, size):
  kind = place["kind"]
  if kind == "register": return list(register(place["register"])[:size])
  if kind == "frame": return list(read(number(place["base"]) + place["offset"], size))
  if kind == "address": return list(read(int(place["address"]) + bias, size))
  if kind == "constant": return list((int(place["value"]) & (1 << 8 * size) - 1).to_bytes(size, "little"))
  if kind == "expression":
    result = evaluate(place["ops"])
    return list(read(result, size)) if place["result"] == "address" else list(result.to_bytes(16, "little")[:size])
  if kind == "pieces":
    return [byte for piece in place["pieces"] for byte in ours(piece["place"], piece["size"])]
  if kind in ("nowhere", "optimised-out"): return [None] * size
  raise Lost(place["reason"])

def symbols(block):
  while block is not None and not block.is_global and not block.is_static:
    for symbol in block:
      if symbol.addr_class not in (gdb.SYMBOL_LOC_TYPEDEF, gdb.SYMBOL_LOC_LABEL, gdb.SYMBOL_LOC_BLOCK):
        yield symbol
    if block.function is not None:
      return
    block = block.superblock

def attempt(read):
  """None where the location is an address that can't be read, as before a frame is made."""
  try:
    return read()
  except gdb.MemoryError:
    return None

def same(value, mine):
  if value is None or mine is None:
    return value is mine
  # gdb shows zeros for bytes of which the location says nothing.
  return len(value) == len(mine) and all(b is None and a in (None, 0) or a == b for a, b in zip(value, mine))

answer = {"compared": 0, "absent": 0, "steps": 0, "refused": {}, "differences": []}
visits = {}
while True:
  frame = gdb.selected_frame()
  at = frame.pc() - bias
  known = asked["variables"].get(str(at))
  if known is None:
    back = int.from_bytes(read(number("rsp"), 8), "little")
    if str(back - bias) not in asked["variables"]:
      break
    gdb.execute("tbreak *%d" % back, to_string=True)
    gdb.execute("continue", to_string=True)
    continue
  answer["steps"] += 1
  visits[at] = visits.get(at, 0) + 1
  if visits[at] <= asked["visits"]:
    # At a call's first instruction gdb may show the caller of an inlined function: ask for the address itself.
    theirs = {}
    for symbol in symbols(gdb.block_for_pc(frame.pc())):
      theirs.setdefault("%s:%d" % (symbol.name, symbol.line), symbol)
    for variable in known:
      symbol = theirs.get(variable["name"])
      size = variable.get("size")
      if symbol is None or size is None:
        continue
      try:
        mine = attempt(lambda: ours(variable["location"], size))
        value = attempt(lambda: leaves(symbol.value(frame) if symbol.needs_frame else symbol.value()))
      except Lost as lost:
        answer["refused"][str(lost)] = answer["refused"].get(str(lost), 0) + 1
        continue
      if same(value, mine):
        answer["absent" if mine is None or all(byte is None for byte in mine) else "compared"] += 1
      else:
        answer["differences"].append("0x%x %s gdb: %s ours: %s by %s" % (at, variable["name"], value, mine, json.dumps(variable["location"])))
  gdb.execute("stepi", to_string=True)
gdb.execute("kill", to_string=True)
`;

export interface StepReport {
  /** Values of which every byte was the same. */
  readonly compared: number;
  /** Those of which both say that they are nowhere. */
  readonly absent: number;
  readonly steps: number;
  /** How often each reason was given for one that can't be found. */
  readonly refused: Record<string, number>;
  readonly differences: string[];
}

export const labelOf = (variable: Variable) => `${variable.name}:${variable.line ?? 0}`;

/** Steps from main to its end, comparing all variables of frame 0 at every instruction on its first `visits` visits. */
export function stepThrough(path: string, visits: number): StepReport {
  const binary = openBinary(path);
  const variables: Record<number, { name: string; size: number | undefined; location: Location }[]> = {};
  for (const at of instructionsOf(path)) {
    variables[at] = binary.variablesAt(address(at)).map((variable) => ({
      name: labelOf(variable),
      size: sizeOf(variable.type),
      location: variable.location,
    }));
  }
  const plainNumbers = JSON.stringify({ variables, visits }, (_, value) =>
    typeof value === 'bigint' ? String(value) : value,
  );
  return gdbPython(path, stepScript, JSON.parse(plainNumbers)) as StepReport;
}
