// Trap: one byte, int3, at the site itself; the runtime's handler in the target leads the thread to the trampoline.

import { endOf } from '../../isa/instruction.js';
import { notPossible, type Tactic } from '../tactics.js';

export const trap: Tactic = (code, around) => {
  const [first] = code.instructions;
  if (first === undefined) return notPossible('there is no instruction');
  if (around.noTrap !== undefined) return notPossible(around.noTrap);
  if (around.isTaken(first.address, endOf(first))) return notPossible('its bytes belong to another probe');
  return { kind: 'placement', displaced: [first], size: 1 };
};
