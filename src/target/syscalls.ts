// Numbers and flags of the x86-64 system calls that fastprobe runs in a target.

export const syscallNumbers = {
  read: 0,
  write: 1,
  close: 3,
  mmap: 9,
  mprotect: 10,
  munmap: 11,
  rt_sigaction: 13,
  mremap: 25,
  getpid: 39,
  ftruncate: 77,
  gettid: 186,
  memfd_create: 319,
} as const;

export type SyscallName = keyof typeof syscallNumbers;

export const PROT = { none: 0, read: 1, write: 2, exec: 4 } as const;
export const MAP = { shared: 0x01, private: 0x02, anonymous: 0x20, fixedNoReplace: 0x100000 } as const;
export const MREMAP = { mayMove: 1, fixed: 2 } as const;
export const MFD_CLOEXEC = 1;
