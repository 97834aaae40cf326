// Plain: the site's own instruction is long enough for the jump. No one can jump into its middle.

import { endOf } from '../../isa/instruction.js';
import { jumpSize, notPossible, type Tactic } from '../tactics.js';

export const plain: Tactic = (code, around) => {
  const [first] = code.instructions;
  if (first === undefined) return notPossible('there is no instruction');
  if (first.length < jumpSize) return notPossible(`the instruction has ${first.length} bytes, a jump has ${jumpSize}`);
  if (around.isTaken(first.address, endOf(first))) return notPossible('its bytes belong to another probe');
  return { kind: 'placement', displaced: [first], size: jumpSize };
};
