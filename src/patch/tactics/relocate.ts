// Relocate several: the site's instruction and the ones behind it make room for the jump, if no one jumps to those.

import { formatAddress } from '../../address.js';
import { endOf, formatInstruction, type Instruction } from '../../isa/instruction.js';
import { jumpSize, notPossible, type Tactic } from '../tactics.js';

export const relocate: Tactic = (code, around) => {
  const displaced: Instruction[] = [];
  let size = 0;
  for (const instruction of code.instructions) {
    if (size >= jumpSize) break;
    if (displaced.length > 0) {
      const answer = code.canBeJumpedTo(instruction.address);
      const at = formatAddress(instruction.address);
      if (answer === 'yes') return notPossible(`a jump goes to ${at}, among the bytes it needs`);
      if (answer === 'unknown') return notPossible(`it is not known whether a jump goes to ${at}`);
    }
    displaced.push(instruction);
    size += instruction.length;
    // A call returns behind itself; what follows it is entered from elsewhere.
    const isCall = instruction.flow === 'call' || instruction.flow === 'indirect-call';
    if (isCall && size < jumpSize)
      return notPossible(`${formatInstruction(instruction)} returns to the bytes it needs`);
  }
  const [first] = displaced;
  const last = displaced.at(-1);
  if (first === undefined || last === undefined || size < jumpSize) return notPossible('the function ends before');
  if (around.isTaken(first.address, endOf(last))) return notPossible('bytes it needs belong to another probe');
  return { kind: 'placement', displaced, size: jumpSize };
};
