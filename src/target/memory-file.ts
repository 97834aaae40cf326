// Reading a process's memory without attaching to it.

import { closeSync, openSync, readSync } from 'node:fs';
import type { Address } from '../address.js';

/** The bytes at an address; fewer where the memory ends before. Needs the rights to attach, but does not attach. */
export function readProcessMemory(pid: number, at: Address, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  const file = openSync(`/proc/${pid}/mem`, 'r');
  try {
    let done = 0;
    while (done < length) {
      const count = readSync(file, bytes, done, length - done, at + BigInt(done));
      if (count === 0) break;
      done += count;
    }
    return bytes.subarray(0, done);
  } finally {
    closeSync(file);
  }
}
