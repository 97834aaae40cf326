// Layout of the channel: the memory that the target and fastprobe share. What native/runtime/channel.h also says stands under
// the same names there, and a test compares the two.

/** "FTPROBE1", little-endian. */
export const magic = 0x3145424f52505446n;

/** Where things are in the header page. */
export const header = {
  magic: 0x000,
  /** The fastprobe that made the channel: its process id and, so that a reused id is not taken for it, its start time. */
  ownerPid: 0x008,
  ownerStart: 0x010,
  /** Milliseconds since 1970. */
  created: 0x018,
  /** One more than there are probes: they are numbered from 1. */
  probeCount: 0x020,
  patchCount: 0x024,
  /** Where the runtime's code is in the target, 0 before it is there. */
  runtime: 0x030,
  /** Where the next hit goes in the ring; has a cache line to itself. */
  head: 0x080,
  /** For each of our signals, the slot that holds the target's own action, and how many slots were handed out. */
  currentAction: 0x100,
  nextAction: 0x110,
  /** The target's own code for returning from a handler, or ours if it has none. */
  restorer: 0x120,
  /** Room for an argument of a system call. */
  scratch: 0x200,
  actions: 0x400,
  /** Where the header page ends. */
  end: 0x1000,
} as const;

/** The signals whose handlers are ours, in the channel's order. */
export const ourSignals = { SIGTRAP: 5, SIGBUS: 7, SIGSEGV: 11 } as const;
export const actionSlots = 32;
/** A sigaction as the kernel has it: handler, flags, restorer, mask. */
export const actionSize = 32;

/** What each probe was asked for: a state, a length, and that many bytes of JSON. */
export const probes = { offset: 0x2000, size: 512, slots: 1024, state: 0, length: 4, text: 8 } as const;

/** A cache line per probe. `limit` is the number of hits after which no more are recorded. */
export const counters = {
  offset: 0x90000,
  size: 64,
  slots: probes.slots,
  hits: 0,
  faults: 8,
  dropped: 16,
  limit: 24,
} as const;

/** Every patch, with the bytes that were there. */
export const patches = {
  offset: 0xa0000,
  size: 64,
  slots: 8192,
  site: 0,
  trampoline: 8,
  /** 0 free, 1 in place or about to be, 2 removed. */
  state: 16,
  length: 17,
  tactic: 18,
  probe: 20,
  original: 24,
  replacement: 40,
} as const;

/** A hash table from the address where a signal arrives to where the thread goes on. */
export const redirects = {
  offset: 0x120000,
  size: 32,
  slots: 32768,
  address: 0,
  target: 8,
  count: 16,
  counter: 24,
} as const;

/**
 * The ring of hits. A slot's turn says whose it is: at position p, in lap p / slots, it is 2·lap when free, 2·lap + 1 when it
 * holds a hit, 2·(lap + 1) when that has been read. So an empty ring is all zeros.
 */
export const ring = {
  offset: 0x220000,
  size: 128,
  slots: 32768,
  turn: 0,
  time: 8,
  probe: 16,
  /** A bit for each value that could not be read. */
  unreadable: 18,
  tid: 20,
  values: 24,
  maximumValues: 13,
} as const;

export const channelSize = ring.offset + ring.size * ring.slots;

/** Behind each view of the channel in the target comes an arena of this size: room for code. Untouched memory costs nothing. */
export const arenaSize = 1 << 20;
