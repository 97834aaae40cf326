// The many spellings of C's arithmetic types: `unsigned long`, `long unsigned int` and `unsigned long int` are one type.

const words = new Set(['signed', 'unsigned', 'short', 'long', 'int', 'char', 'double']);

/** How gcc and clang write in debug information what `name` means; only `name` itself if it is no such type. */
export function spellingsOf(name: string): string[] {
  const parts = name.split(/\s+/);
  if (!parts.every((part) => words.has(part))) return [name];
  const count = (word: string) => parts.filter((part) => part === word).length;
  const sizes = count('short') > 0 ? 'short ' : 'long '.repeat(count('long'));
  const unsigned = count('unsigned') > 0 ? 'unsigned ' : '';
  if (count('double') > 0) return [`${sizes}double`];
  if (count('char') > 0) return [`${count('signed') > 0 ? 'signed ' : unsigned}char`];
  return [`${sizes}${unsigned}int`, sizes === '' ? `${unsigned}int` : `${unsigned}${sizes}`.trim()];
}
