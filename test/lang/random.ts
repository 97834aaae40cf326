// Random C expressions over the variables of oracle/oracle.h, made from a seed so that a failure can be had again.

/** A small generator of random numbers (mulberry32). */
export class Random {
  private state: number;

  constructor(seed: number) {
    this.state = seed >>> 0;
  }

  next(): number {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let mixed = this.state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** 64 random bits, with a liking for the values where things go wrong. */
  bits(): bigint {
    const edges = [0n, 1n, -1n, 2n, -2n, 0x7fn, 0x80n, 0xffn, 0x7fffn, 0x8000n, 0xffffn, 0x7fffffffn, 0x80000000n];
    const more = [-0x80000000n, 0xffffffffn, 0x100000000n, (1n << 63n) - 1n, 1n << 63n, 5n, 100n, -100n];
    if (this.chance(0.5)) return BigInt.asUintN(64, this.pick([...edges, ...more]));
    const word = () => BigInt(Math.floor(this.next() * 2 ** 32));
    return ((word() << 32n) | word()) >> BigInt(this.below(64));
  }
}

const words = (text: string) => text.split(/\s+/).filter((word) => word !== '');

const integers = words(`sc uc c s us i j u w l ul ll ull b color level n i8 u16
  g_sc g_uc g_s g_us g_i g_u g_l g_ul g_b g_color`);
const fields =
  words(`tag count id total values[1] values[3] flag small level wide top full yes whole bytes[2] first second
  color point.x point.y`);
const integerTypes = [
  ...['char', 'signed char', 'unsigned char', 'short', 'unsigned short', 'int', 'unsigned', 'long', 'unsigned long'],
  ...['long long', 'unsigned long long', '_Bool', 'word_t', 'uint8_t', 'int64_t', 'enum color', 'size_t'],
];
const literals = words(`0 1 2 3 7 8 10 31 100 127 128 255 256 1000 32767 32768 65535 65536 1000000 2147483647 2147483648
  4294967295 4294967296 0x7f 0xff 0xffff 0x80000000 0xffffffff 0x7fffffffffffffff 0x8000000000000000 0xffffffffffffffff
  017 0b1011 1u 5u 0u 10l 7ul 3ll 9ull 0xffu 'a' '\\n' '\\xff' '\\0' '\\101'`);

const divisors =
  words(`2 3 4 5 6 7 8 9 10 11 12 13 25 60 64 100 125 641 1000 10000 65537 1000000007 2147483647 2147483646
  -7 -8 -12 3u 7u 10u 12u 16u 1000u 641u 65537u 2147483648 4294967295 4294967294 3l 8l 10l 24l 1000l 10ul 24ul 7ul -10l
  0x7fffffffffffffff 0xffffffffffffffff 1073741824 2147483648l`);

/** Writes expressions. Parentheses go where C needs them, and sometimes where it does not. */
export class Writer {
  private readonly random: Random;
  /** Variables that come again and again in the expression being written. */
  private favourites: string[] = [];

  constructor(random: Random) {
    this.random = random;
  }

  /** An expression that is not a bit-field by itself, so that typeof can be asked of it. */
  expression(): string {
    this.favourites = this.random.chance(0.5) ? [] : [0, 1, 2].map(() => this.random.pick(integers));
    const text = this.integer(this.random.pick([1, 2, 2, 3, 3, 4, 5]));
    return /[.>]\w+$/.test(text) ? `+(${text})` : text;
  }

  integer(depth: number): string {
    const { random } = this;
    if (depth <= 0) return this.leaf();
    const inner = () => this.operand(depth - 1);
    switch (random.below(16)) {
      case 0:
      case 1:
        return `${inner()} ${random.pick(['+', '-', '*'])} ${inner()}`;
      case 2:
        return `${inner()} ${random.pick(['&', '|', '^'])} ${inner()}`;
      case 3:
        return `${inner()} ${random.pick(['/', '%'])} ${random.chance(0.5) ? random.pick(divisors) : inner()}`;
      case 4:
        if (random.chance(0.3)) {
          return `${inner()} % ${random.pick(divisors)} ${random.pick(['==', '!='])} ${random.pick(['0', '1', '-1'])}`;
        }
        return `${inner()} ${random.pick(['<<', '>>'])} ${random.chance(0.5) ? random.pick(['1', '3', '7', '31', '16']) : `(${inner()} & 31)`}`;
      case 5:
      case 6:
      case 7:
        return `${inner()} ${random.pick(['<', '<=', '>', '>=', '==', '!='])} ${inner()}`;
      case 8:
        return `${inner()} ${random.pick(['&&', '||'])} ${inner()}`;
      case 9:
        return `${inner()} ${random.pick(['&&', '||'])} ${inner()} ${random.pick(['&&', '||'])} ${inner()}`;
      case 10:
        return `${random.pick(['-', '~', '!', '+'])}${inner()}`;
      case 11:
        return `(${random.pick(integerTypes)})${inner()}`;
      case 12:
        return `${inner()} ? ${inner()} : ${inner()}`;
      case 13:
        return this.access(depth - 1);
      case 14:
        return this.pointers(depth - 1);
      default:
        return random.chance(0.2)
          ? `sizeof(${this.integer(depth - 1).replace(/^(.*[.>]\w+)$/, '+($1)')})`
          : this.leaf();
    }
  }

  /** Something that can stand beside any operator. */
  private operand(depth: number): string {
    const text = this.integer(depth);
    return /^[\w.$]+$|^'.*'$/.test(text) && !this.random.chance(0.05) ? text : `(${text})`;
  }

  private leaf(): string {
    const { random } = this;
    if (this.favourites.length > 0 && random.chance(0.5)) return random.pick(this.favourites);
    const kind = random.below(10);
    if (kind < 6) return random.pick(integers);
    return kind < 8 ? random.pick(literals) : this.access(0);
  }

  private small(limit: number, depth: number): string {
    const { random } = this;
    if (random.chance(0.5)) return `${random.below(limit)}`;
    const mask = limit >= 8 ? 7 : limit >= 4 ? 3 : 1;
    return `${this.operand(depth)} & ${mask}`;
  }

  private access(depth: number): string {
    const { random } = this;
    switch (random.below(12)) {
      case 0:
        return `row[${this.small(6, depth)}]`;
      case 1:
        return `numbers[${this.small(8, depth)}]`;
      case 2:
        return `table[${this.small(2, depth)}][${this.small(3, depth)}]`;
      case 3:
        return `grid[${this.small(3, depth)}][${this.small(4, depth)}]`;
      case 4:
        return `thing.${random.pick(fields)}`;
      case 5:
        return `bytes[${this.small(6, depth)}]`;
      case 6:
        return random.pick([
          '*pi',
          '*bytes',
          '*inside',
          'pi[-2]',
          'inside[1]',
          '*(pi + 1)',
          '2[pi]',
          '(*p).id',
          '**grid',
        ]);
      case 7:
        return `*(${random.pick(['int', 'unsigned char', 'short', 'unsigned long', 'signed char'])} *)${random.pick(['pv', 'pi', 'bytes', '&i', '&thing', '&g_ul', 'row', 'p'])}`.replace(
          '&i',
          random.chance(0.5) ? '&row[1]' : '&thing.id',
        );
      case 8:
        return `items[${this.small(4, depth)}].${random.pick(fields)}`;
      case 9:
        return `p->next->next->${random.pick(fields)}`;
      default:
        return `${this.item()}->${random.pick(fields)}`;
    }
  }

  private item(): string {
    return this.random.pick(['p', 'q', 'p->next', 'q->next', 'p->next->next', '(&thing)', '(&items[1])', 'thing.next']);
  }

  /** Integers made from pointers: differences, comparisons, tests. */
  private pointers(depth: number): string {
    const { random } = this;
    const number = () =>
      random.pick([
        'pi',
        '&numbers[5]',
        'numbers',
        '(pi + 2)',
        '(int *)pv',
        `(numbers + (${this.operand(depth)} & 7))`,
      ]);
    const item = () => random.pick(['p', 'q', '&items[3]', 'items', 'p->next', '(q - 1)']);
    switch (random.below(8)) {
      case 0:
        return `${number()} - ${number()}`;
      case 1:
        return `${item()} - ${item()}`;
      case 2:
        return `(po + ${random.below(3)}) - ${random.pick(['po', 'odds', '&odds[4]'])}`;
      case 3:
        return `${number()} ${random.pick(['<', '>=', '==', '!='])} ${number()}`;
      case 4:
        return `${item()} ${random.pick(['<', '>=', '==', '!='])} ${item()}`;
      case 5:
        return `!${random.pick(['p', 'nil', 'q', 'q->next->next'])}`;
      case 6:
        return `${random.pick(['p', 'nil', 'q', 'q->next->next'])} ${random.pick(['== NULL', '!= 0', '&& i', '|| u'])}`;
      default:
        return `nil ? nil->id : ${this.operand(depth)}`;
    }
  }
}
