// The errors of this layer, which show the expression with a mark under the place they speak of.

import { FastprobeError } from '../errors.js';
import type { Span } from './tree.js';

type LanguageCode =
  | 'FASTPROBE_EXPRESSION_SYNTAX'
  | 'FASTPROBE_EXPRESSION_TYPE'
  | 'FASTPROBE_EXPRESSION_UNSUPPORTED'
  | 'FASTPROBE_OPTIMISED_OUT';

/** The text with a caret line under the span. Characters that would break the line are shown as spaces. */
export function marked(text: string, { start, end }: Span): string {
  const line = text.replaceAll(/[\t\r\n\v\f]/g, ' ');
  return `  ${line}\n  ${' '.repeat(start)}^${'~'.repeat(Math.max(0, Math.min(end, text.length) - start - 1))}`;
}

/** Makes the errors about one expression. */
export class Complaints {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  syntax(span: Span, message: string, hint: string): FastprobeError {
    return this.make('FASTPROBE_EXPRESSION_SYNTAX', span, message, hint);
  }

  type(span: Span, message: string, hint: string): FastprobeError {
    return this.make('FASTPROBE_EXPRESSION_TYPE', span, message, hint);
  }

  unsupported(span: Span, message: string, hint: string): FastprobeError {
    return this.make('FASTPROBE_EXPRESSION_UNSUPPORTED', span, message, hint);
  }

  optimisedOut(span: Span, message: string, hint: string): FastprobeError {
    return this.make('FASTPROBE_OPTIMISED_OUT', span, message, hint);
  }

  /** The piece of text that a span covers. */
  at({ start, end }: Span): string {
    return this.text.slice(start, end);
  }

  private make(code: LanguageCode, span: Span, message: string, hint: string): FastprobeError {
    return new FastprobeError(code, `${message}\n${marked(this.text, span)}`, { hint });
  }
}
