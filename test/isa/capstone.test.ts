// The raw Capstone module: it is loaded once, and only when its structs are laid out as we read them.

import { expect, it } from 'vitest';
import { Capstone, selfCheck } from '../../src/isa/decode/capstone.js';

const unusable = expect.objectContaining({ code: 'FASTPROBE_DECODER_UNUSABLE' });

it('is refused when a fact is not where it must be, or when its heap is out of reach', async () => {
  const capstone = await Capstone.load();
  expect(() => selfCheck(capstone)).not.toThrow();
  expect(() => selfCheck(capstone, [['c3', 'ret ', 1, 0, undefined, undefined]])).toThrow(unusable);
  expect(() => selfCheck(capstone, [['06', 'push es', 0, 0, undefined, undefined]])).toThrow(unusable);
  // The package instantiates its module once per process, for whoever comes first.
  await expect(Capstone.load()).rejects.toEqual(unusable);
});
