// The syntax tree of an expression, as the parser makes it: what was written, before anything is known of names and types.

/** A stretch of the expression's text: from `start` up to, not including, `end`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** A parsed expression with its text, which messages about it quote. */
export interface Expression {
  readonly text: string;
  readonly root: Node;
}

export type UnaryOperator = '*' | '&' | '-' | '+' | '!' | '~';
export type Relation = '==' | '!=' | '<' | '<=' | '>' | '>=';
export type BinaryOperator = '*' | '/' | '%' | '+' | '-' | '<<' | '>>' | Relation | '&' | '^' | '|' | '&&' | '||';

/** The type that a literal is written with: `10u`, `0x10L`. */
export interface IntegerSuffix {
  readonly isUnsigned: boolean;
  readonly longs: 0 | 1 | 2;
}

export type Node = { readonly span: Span } & (
  | { readonly kind: 'integer'; readonly value: bigint; readonly isDecimal: boolean; readonly suffix: IntegerSuffix }
  /** An int in C, as the constants `true` and `false` are. */
  | { readonly kind: 'character'; readonly value: bigint }
  | { readonly kind: 'null' }
  | { readonly kind: 'name'; readonly name: string }
  /** Without the dollar sign. */
  | { readonly kind: 'register'; readonly name: string }
  | {
      readonly kind: 'member';
      readonly object: Node;
      readonly name: string;
      /** `->` rather than `.`. */
      readonly isArrow: boolean;
    }
  | { readonly kind: 'index'; readonly object: Node; readonly index: Node }
  | { readonly kind: 'unary'; readonly operator: UnaryOperator; readonly operand: Node }
  | { readonly kind: 'cast'; readonly type: TypeName; readonly operand: Node }
  | { readonly kind: 'sizeof'; readonly operand: Node }
  | { readonly kind: 'sizeof-type'; readonly type: TypeName }
  | { readonly kind: 'binary'; readonly operator: BinaryOperator; readonly left: Node; readonly right: Node }
  | { readonly kind: 'conditional'; readonly condition: Node; readonly then: Node; readonly otherwise: Node }
);

/** A type as written in a cast or sizeof. */
export interface TypeName {
  readonly span: Span;
  /** The words before the stars, in their usual order: `unsigned int`, `struct item`, `size_t`. */
  readonly base: string;
  /** From the inside out: `int *[3]` is pointer, then 3. */
  readonly derivations: readonly ('pointer' | number)[];
}
