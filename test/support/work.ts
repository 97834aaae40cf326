// The program that most tests of probes work on, and what must be true of it when the probes are gone.

import { address } from '../../src/address.js';
import { openBinary } from '../../src/binary/binary.js';
import { readMaps } from '../../src/target/maps.js';
import { readProcessMemory } from '../../src/target/memory-file.js';
import { compileTarget, startTarget } from './targets.js';

/** Starts test/targets/work.c; `go` lets it work and gives what it counted. */
export async function startWork(flags: readonly string[], args: readonly string[] = []) {
  const path = compileTarget('work', flags);
  const program = await startTarget(path, args);
  const go = async () => {
    program.child.stdin.write('\n');
    return JSON.parse(await program.line());
  };
  return { ...program, path, go };
}

/** Where the code of the program in memory differs from its file. */
export function changedCode(pid: number, path: string): string[] {
  const binary = openBinary(path);
  return readMaps(pid).flatMap((mapping) => {
    if (mapping.path !== path || !mapping.executable) return [];
    const bias = binary.loadBias(mapping.start, Number(mapping.offset));
    const segment = binary.segments.find((each) => each.isExecutable);
    if (segment === undefined) return ['no code'];
    const start = address(segment.address + bias);
    const inMemory = readProcessMemory(pid, start, segment.fileSize);
    const inFile = binary.readStatic(segment.address, segment.fileSize);
    return [...inFile].flatMap((byte, index) => (byte === inMemory[index] ? [] : [`+0x${index.toString(16)}`]));
  });
}

/** Memory of ours in a process. */
export const ourMappings = (pid: number) => readMaps(pid).filter(({ path }) => path.includes('fastprobe'));
