// The parser: C expressions by recursive descent, with a table of precedences for the binary operators.

import { Complaints } from './complaint.js';
import { type Token, tokensOf } from './tokens.js';
import type { BinaryOperator, Expression, Node, Span, UnaryOperator } from './tree.js';
import { isTypeWord, readTypeName } from './type-words.js';

/** Longer texts and deeper trees are not written by people, and would exhaust the stack. */
const longestText = 4000;
const deepestNesting = 200;
const deepestTree = 300;

/** A higher number binds tighter. */
const precedences: Readonly<Record<BinaryOperator, number>> = {
  '||': 1,
  '&&': 2,
  '|': 3,
  '^': 4,
  '&': 5,
  '==': 6,
  '!=': 6,
  '<': 7,
  '<=': 7,
  '>': 7,
  '>=': 7,
  '<<': 8,
  '>>': 8,
  '+': 9,
  '-': 9,
  '*': 10,
  '/': 10,
  '%': 10,
};

const unaryOperators: readonly string[] = ['*', '&', '-', '+', '!', '~'] satisfies UnaryOperator[];

/** What the parser must know of names: in `(a) - b`, whether `a` is a type. */
export interface TypeNames {
  isType(name: string): boolean;
}

/** Without a program at hand: the names that C's own headers give to types. */
const usualTypeNames: TypeNames = { isType: (name) => name.endsWith('_t') || name === 'FILE' };

/**
 * Parses an expression. Give the scope as `names` to have `(item) * p` read as the program would: a cast if `item` is a type.
 *
 * ```ts
 * const typed = check(parse('q->len > cap', scope), scope);
 * ```
 */
export function parse(text: string, names: TypeNames = usualTypeNames): Expression {
  const complaints = new Complaints(text);
  if (text.length > longestText) {
    throw new Complaints(`${text.slice(0, 60)}…`).syntax(
      { start: 0, end: 60 },
      `the expression has ${text.length} characters`,
      `at most ${longestText} are possible: split it`,
    );
  }
  return { text, root: new Parser(complaints, names).whole() };
}

/** Holds the place in the tokens while one expression is read. */
export class Parser {
  readonly complaints: Complaints;
  private readonly names: TypeNames;
  private readonly tokens: readonly Token[];
  private position = 0;
  private depth = 0;
  /** How many operations lie below a node on the longest way down: also `a + b + c + …` makes a deep tree. */
  private readonly heights = new WeakMap<Node, number>();

  constructor(complaints: Complaints, names: TypeNames) {
    this.complaints = complaints;
    this.names = names;
    this.tokens = tokensOf(complaints);
  }

  whole(): Node {
    const node = this.conditional();
    const rest = this.peek();
    if (rest.kind !== 'end') throw this.misplaced(rest);
    return node;
  }

  // --- tokens

  peek(ahead = 0): Token {
    const at = Math.min(this.position + ahead, this.tokens.length - 1);
    return this.tokens[at] as Token;
  }

  next(): Token {
    const token = this.peek();
    this.position++;
    return token;
  }

  isSign(text: string, ahead = 0): boolean {
    const token = this.peek(ahead);
    return token.kind === 'sign' && token.text === text;
  }

  /** Takes the sign that must come now; `opening` is what it closes. */
  expect(sign: string, opening?: Span): Token {
    if (this.isSign(sign)) return this.next();
    const token = this.peek();
    if (token.kind !== 'end') throw this.misplaced(token, `'${sign}' was expected`);
    if (opening === undefined) throw this.complaints.syntax(token.span, `'${sign}' is missing`, `add '${sign}'`);
    const open = this.complaints.at(opening);
    throw this.complaints.syntax(opening, `this '${open}' is never closed`, `add '${sign}'`);
  }

  /** The error for a token that cannot stand where it is. */
  misplaced(token: Token, why?: string): Error {
    const { complaints } = this;
    if (token.kind === 'end') {
      return complaints.syntax(token.span, 'the expression ends too early', 'write an operand here');
    }
    if (token.kind === 'sign') {
      if (/^(?:[+\-*/%&^|]|<<|>>)?=$/.test(token.text)) {
        const hint =
          token.text === '=' ? "to compare, write '=='" : 'a probe looks at the target, it does not change it';
        return complaints.unsupported(token.span, `assignments ('${token.text}') are not possible`, hint);
      }
      if (token.text === '++' || token.text === '--') {
        return complaints.unsupported(
          token.span,
          `'${token.text}' would change the target`,
          "write 'x + 1' or 'x - 1'",
        );
      }
      if (token.text === ',') {
        return complaints.unsupported(token.span, "the ',' operator is not known here", 'write one expression');
      }
    }
    const text = complaints.at(token.span);
    return complaints.syntax(token.span, why ?? `'${text}' can't stand here`, 'write an expression as in C');
  }

  // --- expressions, loosest first

  private conditional(): Node {
    const condition = this.binary(1);
    if (!this.isSign('?')) return condition;
    this.next();
    return this.deeper(() => {
      const then = this.conditional();
      this.expect(':');
      const otherwise = this.conditional();
      const span = { start: condition.span.start, end: otherwise.span.end };
      return { kind: 'conditional', condition, then, otherwise, span };
    });
  }

  private binary(lowest: number): Node {
    let left = this.unary();
    for (;;) {
      const token = this.peek();
      const precedence = token.kind === 'sign' ? precedences[token.text as BinaryOperator] : undefined;
      if (token.kind !== 'sign' || precedence === undefined || precedence < lowest) return left;
      this.next();
      const right = this.binary(precedence + 1);
      const span = { start: left.span.start, end: right.span.end };
      left = this.over([left, right], {
        kind: 'binary',
        operator: token.text as BinaryOperator,
        left,
        right,
        span,
      });
    }
  }

  private unary(): Node {
    return this.deeper(() => {
      const token = this.peek();
      if (token.kind === 'sign' && unaryOperators.includes(token.text)) {
        this.next();
        const operand = this.unary();
        const span = { start: token.span.start, end: operand.span.end };
        return { kind: 'unary', operator: token.text as UnaryOperator, operand, span };
      }
      if (token.kind === 'name' && token.text === 'sizeof') return this.sizeof();
      if (this.isSign('(') && this.startsCast()) {
        const opening = this.next();
        const type = readTypeName(this);
        this.expect(')', opening.span);
        const operand = this.unary();
        return { kind: 'cast', type, operand, span: { start: opening.span.start, end: operand.span.end } };
      }
      return this.postfix();
    });
  }

  private sizeof(): Node {
    const { start } = this.next().span;
    if (this.isSign('(') && this.startsType(1)) {
      const opening = this.next();
      const type = readTypeName(this);
      const { end } = this.expect(')', opening.span).span;
      return { kind: 'sizeof-type', type, span: { start, end } };
    }
    // In `sizeof(a) - 1` the parentheses are sizeof's, also if `a` is a type: the check will tell which it is.
    const isName = this.isSign('(') && this.peek(1).kind === 'name' && this.isSign(')', 2);
    const operand = isName ? this.postfix() : this.unary();
    return { kind: 'sizeof', operand, span: { start, end: operand.span.end } };
  }

  private postfix(): Node {
    let node = this.primary();
    for (;;) {
      const { start } = node.span;
      if (this.isSign('.') || this.isSign('->')) {
        const isArrow = this.isSign('->');
        this.next();
        const name = this.peek();
        if (name.kind !== 'name') throw this.misplaced(name, 'the name of a member was expected');
        this.next();
        const span = { start, end: name.span.end };
        node = this.over([node], { kind: 'member', object: node, name: name.text, isArrow, span });
      } else if (this.isSign('[')) {
        const opening = this.next();
        const object = node;
        const index = this.deeper(() => this.conditional());
        const { end } = this.expect(']', opening.span).span;
        node = this.over([object, index], { kind: 'index', object, index, span: { start, end } });
      } else if (this.isSign('(')) {
        const end = this.peek().span.end;
        const message = 'functions of the target can’t be called from an expression';
        throw this.complaints.unsupported({ start, end }, message, 'use the variables that the function would read');
      } else return node;
    }
  }

  private primary(): Node {
    const token = this.next();
    const { span } = token;
    switch (token.kind) {
      case 'integer':
      case 'character':
        return token;
      case 'register':
        if (token.text !== '') return { kind: 'register', name: token.text, span };
        throw this.complaints.syntax(span, "the name of a register is missing after '$'", 'write $rax, $edi or $sp');
      case 'name':
        if (token.text === 'NULL' || token.text === 'nullptr') return { kind: 'null', span };
        if (token.text === 'true' || token.text === 'false') {
          return { kind: 'character', value: token.text === 'true' ? 1n : 0n, span };
        }
        if (!isTypeWord(token.text)) return { kind: 'name', name: token.text, span };
        throw this.complaints.syntax(
          span,
          `the type '${token.text}' can't stand here`,
          `for a cast write (${token.text})x`,
        );
      case 'string': {
        const message = "strings can't be compared or used in expressions yet";
        throw this.complaints.unsupported(span, message, "compare characters: p[0] == 'a' && p[1] == 'b'");
      }
      case 'sign':
        if (token.text === '(') {
          const inner = this.deeper(() => this.conditional());
          const { end } = this.expect(')', span).span;
          return this.over([inner], { ...inner, span: { start: span.start, end } });
        }
        throw this.misplaced(token);
      case 'end':
        throw this.misplaced(token);
    }
  }

  // --- types among expressions

  /** Whether a type stands at the token `ahead`: by its words, or because only a type can be followed so. */
  private startsType(ahead: number): boolean {
    const token = this.peek(ahead);
    if (token.kind !== 'name') return false;
    if (isTypeWord(token.text)) return true;
    // `(item *)` and `(item *const *)` are types whatever item is.
    let after = ahead + 1;
    while (this.isSign('*', after) || this.isQualifier(after)) after++;
    return after > ahead + 1 && this.isSign(')', after);
  }

  private isQualifier(ahead: number): boolean {
    const token = this.peek(ahead);
    return token.kind === 'name' && /^(const|volatile|restrict)$/.test(token.text);
  }

  /** At an opening parenthesis: whether it begins a cast. `(a) - b` depends on what `a` is. */
  private startsCast(): boolean {
    if (this.startsType(1)) return true;
    const name = this.peek(1);
    if (name.kind !== 'name' || !this.isSign(')', 2)) return false;
    const after = this.peek(3);
    if (after.kind === 'end') return false;
    if (after.kind !== 'sign') return true;
    if (after.text === '~' || after.text === '!') return true;
    return ['(', '-', '+', '*', '&'].includes(after.text) && this.names.isType(name.text);
  }

  /** The node, unless it is too far above its deepest part. */
  private over(parts: readonly Node[], node: Node): Node {
    const height = 1 + Math.max(...parts.map((part) => this.heights.get(part) ?? 0));
    if (height > deepestTree) {
      const message = `the expression is more than ${deepestTree} operations deep`;
      throw this.complaints.syntax({ start: node.span.start, end: node.span.start }, message, 'write it more simply');
    }
    this.heights.set(node, height);
    return node;
  }

  private deeper<T>(read: () => T): T {
    if (++this.depth > deepestNesting) {
      throw this.complaints.syntax(
        this.peek().span,
        'the expression is nested too deeply here',
        'write it more simply',
      );
    }
    const result = read();
    this.depth--;
    return result;
  }
}
