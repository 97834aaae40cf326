// The modules of a target: its program and libraries, each with its binary and where it is loaded.

import { basename } from 'node:path';
import { type Address, address, offsetBy } from '../address.js';
import { type Binary, openBinary } from '../binary/binary.js';
import type { Segment } from '../binary/elf.js';
import { FastprobeError } from '../errors.js';
import { DistantTargets } from '../isa/distant.js';
import type { Span } from '../patch/space.js';
import { type Mapping, mappedFile, readMaps } from '../target/maps.js';

/** One program or library in the target. */
export class Module {
  /** As the target names it. */
  readonly path: string;
  /** From its first executable byte to its last. */
  readonly code: Span;
  readonly #pid: number;
  readonly #mappings: readonly Mapping[];
  #binary: Binary | undefined;
  #bias: bigint | undefined;
  #jumps: readonly { readonly segment: Segment; readonly targets: DistantTargets }[] | undefined;

  constructor(pid: number, mappings: readonly Mapping[]) {
    const executable = mappings.filter((mapping) => mapping.executable);
    this.#pid = pid;
    this.#mappings = mappings;
    this.path = mappings[0]?.path ?? '';
    this.code = {
      low: address(executable.reduce((low, { start }) => (start < low ? start : low), executable[0]?.start ?? 0n)),
      high: address(executable.reduce((high, { end }) => (end > high ? end : high), 0n)),
    };
  }

  get name(): string {
    return basename(this.path);
  }

  /** Its symbols and debug information, read from the very file that is mapped. */
  get binary(): Binary {
    this.#binary ??= this.#open();
    return this.#binary;
  }

  /** What to add to a file address for one in the target. */
  get bias(): bigint {
    const [first] = this.#mappings;
    this.#bias ??= first === undefined ? 0n : this.binary.loadBias(first.start, Number(first.offset));
    return this.#bias;
  }

  toTarget(fileAddress: Address): Address {
    return offsetBy(fileAddress, this.bias);
  }

  toFile(targetAddress: Address): Address {
    return offsetBy(targetAddress, -this.bias);
  }

  /** True when code of the module outside of `function` may jump to an address in it. */
  isJumpedToFromOutside(at: Address, { low, high }: Span): boolean {
    if (this.#jumps === undefined) {
      const segments = this.binary.segments.filter((segment) => segment.isExecutable);
      this.#jumps = segments.map((segment) => ({
        segment,
        targets: new DistantTargets(this.binary.readStatic(segment.address, segment.fileSize), segment.address),
      }));
    }
    const inFile = this.toFile(at);
    return this.#jumps.some(
      ({ segment, targets }) =>
        inFile >= segment.address &&
        inFile < segment.address + BigInt(segment.fileSize) &&
        targets.has(inFile, this.toFile(low), this.toFile(high)),
    );
  }

  contains(at: Address): boolean {
    return this.#mappings.some(({ start, end, executable }) => executable && start <= at && at < end);
  }

  /** True where the target can't write: what is there stays as it is. */
  isConstant(at: Address): boolean {
    return this.#mappings.some(({ start, end, writable }) => !writable && start <= at && at < end);
  }

  #open(): Binary {
    const [mapping] = this.#mappings;
    const file = mapping === undefined ? undefined : mappedFile(this.#pid, mapping);
    if (file?.state === 'same') return openBinary(this.path, { root: `/proc/${this.#pid}/root` });
    if (file !== undefined && file.state !== 'none' && file.path !== undefined) return openBinary(file.path);
    throw new FastprobeError(
      'FASTPROBE_MODULE_UNREADABLE',
      `${this.path} was ${file?.state ?? 'removed'} since the target mapped it, and the mapped file can't be reached`,
      { hint: 'run as root, which can read the mapped file itself, or restart the program' },
    );
  }
}

/** The modules that are loaded now, the program itself first. */
export function loadedModules(pid: number): Module[] {
  const byFile = new Map<string, Mapping[]>();
  for (const mapping of readMaps(pid)) {
    if (mapping.inode === 0n || !mapping.path.startsWith('/') || mapping.path.startsWith('/memfd:')) continue;
    const key = `${mapping.device} ${mapping.inode}`;
    byFile.set(key, [...(byFile.get(key) ?? []), mapping]);
  }
  return [...byFile.values()]
    .filter((mappings) => mappings.some((mapping) => mapping.executable))
    .map((mappings) => new Module(pid, mappings));
}
