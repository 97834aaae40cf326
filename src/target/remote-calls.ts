// System calls run in the target, by a thread of it that does not notice.

import { getSystemErrorName } from 'node:util';
import { type Address, address, formatAddress, offsetBy } from '../address.js';
import { FastprobeError } from '../errors.js';
import type { NativeTarget } from './addon.js';
import { type Mapping, readMaps } from './maps.js';
import { native } from './native-errors.js';
import { SharedRegion } from './shared-region.js';
import { MAP, MFD_CLOEXEC, PROT, type SyscallName, syscallNumbers } from './syscalls.js';

export interface RemoteOptions {
  /** The thread that makes the call; any if not given. */
  tid?: number;
  timeoutMs?: number;
}

const pageSize = 4096;
const pages = (length: number) => Math.ceil(length / pageSize) * pageSize;

/**
 * Runs system calls in a stopped target. The thread that lends itself is put back as it was, also when the call fails,
 * blocks, or we die; signals that arrive meanwhile wait.
 */
export class RemoteCalls {
  readonly #native: NativeTarget;
  readonly #pid: number;
  #instruction: Promise<Address> | undefined;

  constructor(nativeTarget: NativeTarget, pid: number) {
    this.#native = nativeTarget;
    this.#pid = pid;
  }

  /** Runs any system call. Resolves with what the kernel returns: a negative errno when the call failed. */
  async raw(nr: number, args: readonly bigint[] = [], options: RemoteOptions = {}): Promise<bigint> {
    this.#instruction ??= this.#findInstruction();
    const instruction = await this.#instruction;
    const tid = options.tid ?? (await this.#anyThread());
    const words = BigUint64Array.from({ length: 6 }, (_, index) => BigInt.asUintN(64, args[index] ?? 0n));
    return native(this.#native.syscall(tid, instruction, nr, words, options.timeoutMs ?? 5_000));
  }

  /** Runs a system call by name. Throws FASTPROBE_REMOTE_CALL when it fails. */
  async call(name: SyscallName, args: readonly bigint[] = [], options: RemoteOptions = {}): Promise<bigint> {
    const result = await this.raw(syscallNumbers[name], args, options);
    if (result < 0n && result > -4096n) {
      const errno = getSystemErrorName(Number(result));
      throw new FastprobeError('FASTPROBE_REMOTE_CALL', `${name} in process ${this.#pid} failed: ${errno}`, {
        hint: `man 2 ${name} says what ${errno} means`,
      });
    }
    return result;
  }

  /** Maps anonymous private memory; at `at`, if given, but never over something that is there. */
  async mmap(length: number, options: { at?: Address; protection?: number } = {}): Promise<Address> {
    const protection = options.protection ?? PROT.read | PROT.write;
    const flags = MAP.private | MAP.anonymous | (options.at === undefined ? 0 : MAP.fixedNoReplace);
    return this.#map([options.at ?? 0n, BigInt(length), BigInt(protection), BigInt(flags), -1n, 0n], options.at);
  }

  async munmap(at: Address, length: number): Promise<void> {
    await this.call('munmap', [at, BigInt(length)]);
  }

  async mprotect(at: Address, length: number, protection: number): Promise<void> {
    await this.call('mprotect', [at, BigInt(length), BigInt(protection)]);
  }

  /** Makes an anonymous file in the target; resolves with its descriptor there. It is closed by an exec. */
  async memfdCreate(name: string): Promise<number> {
    const text = Buffer.from(`${name}\0`);
    const scratch = await this.mmap(pages(text.length));
    try {
      await native(this.#native.write(BigUint64Array.of(scratch, BigInt(text.length)), text));
      return Number(await this.call('memfd_create', [scratch, BigInt(MFD_CLOEXEC)]));
    } finally {
      await this.munmap(scratch, pages(text.length));
    }
  }

  /** Makes memory that the target and we both see; at `at` in the target, if given, but never over something. */
  async share(length: number, options: { at?: Address; name?: string } = {}): Promise<SharedRegion> {
    const size = pages(length);
    const file = await this.memfdCreate(options.name ?? 'fastprobe');
    try {
      await this.call('ftruncate', [BigInt(file), BigInt(size)]);
      const flags = MAP.shared | (options.at === undefined ? 0 : MAP.fixedNoReplace);
      const protection = PROT.read | PROT.write;
      const place = await this.#map(
        [options.at ?? 0n, BigInt(size), BigInt(protection), BigInt(flags), BigInt(file), 0n],
        options.at,
      );
      return new SharedRegion(`/proc/${this.#pid}/fd/${file}`, size, place);
    } finally {
      await this.call('close', [BigInt(file)]);
    }
  }

  /** After exec the instruction that we used is gone. */
  forgetProgram(): void {
    this.#instruction = undefined;
  }

  async #map(args: readonly bigint[], wanted: Address | undefined): Promise<Address> {
    const place = address(await this.call('mmap', args));
    if (wanted === undefined || place === wanted) return place;
    // A kernel older than 4.17 takes MAP_FIXED_NOREPLACE for a mere wish.
    await this.munmap(place, Number(args[1]));
    throw new FastprobeError('FASTPROBE_REMOTE_CALL', `mmap could not place memory at ${formatAddress(wanted)}`, {
      hint: 'the place is taken; choose another from maps()',
    });
  }

  async #anyThread(): Promise<number> {
    const { tids } = await native(this.#native.registers());
    const [tid] = tids;
    if (tid !== undefined) return tid;
    throw new FastprobeError(
      'FASTPROBE_NO_SUCH_THREAD',
      `process ${this.#pid} has no thread that could make the call`,
      {
        hint: 'the process is about to end',
      },
    );
  }

  /** A syscall instruction in the target's own code: the vdso has one, and so has every program that does anything. */
  async #findInstruction(): Promise<Address> {
    const executable = readMaps(this.#pid).filter((mapping) => mapping.executable && mapping.path !== '[vsyscall]');
    const vdsoFirst = [...executable].sort((a, b) => Number(b.path === '[vdso]') - Number(a.path === '[vdso]'));
    for (const mapping of vdsoFirst) {
      const found = await this.#findIn(mapping);
      if (found !== undefined) return found;
    }
    throw new FastprobeError('FASTPROBE_REMOTE_CALL', `process ${this.#pid} has no syscall instruction to use`, {
      hint: 'wait until the program has loaded its libraries',
    });
  }

  async #findIn(mapping: Mapping): Promise<Address | undefined> {
    const syscallInstruction = Buffer.of(0x0f, 0x05);
    const chunk = 1 << 20;
    for (let from = mapping.start; from < mapping.end; from = offsetBy(from, chunk)) {
      // One byte more than a chunk, for an instruction across its end.
      const length = Math.min(chunk + 1, Number(mapping.end - from));
      const bytes = new Uint8Array(length);
      await native(this.#native.read(BigUint64Array.of(from, BigInt(length)), bytes));
      const index = Buffer.from(bytes.buffer).indexOf(syscallInstruction);
      if (index >= 0) return offsetBy(from, index);
    }
    return undefined;
  }
}
