// The numbers of DWARF 2 to 5 (section 7 of the standard) that this layer reads, under their names without the DW_ prefix.

export const tag = {
  arrayType: 0x01,
  classType: 0x02,
  enumerationType: 0x04,
  formalParameter: 0x05,
  label: 0x0a,
  lexicalBlock: 0x0b,
  member: 0x0d,
  pointerType: 0x0f,
  referenceType: 0x10,
  compileUnit: 0x11,
  structureType: 0x13,
  subroutineType: 0x15,
  typedef: 0x16,
  unionType: 0x17,
  unspecifiedParameters: 0x18,
  inheritance: 0x1c,
  inlinedSubroutine: 0x1d,
  pointerToMember: 0x1f,
  subrange: 0x21,
  baseType: 0x24,
  constType: 0x26,
  enumerator: 0x28,
  subprogram: 0x2e,
  variable: 0x34,
  volatileType: 0x35,
  restrictType: 0x37,
  namespace: 0x39,
  unspecifiedType: 0x3b,
  partialUnit: 0x3c,
  rvalueReferenceType: 0x42,
  atomicType: 0x47,
  callSite: 0x48,
  callSiteParameter: 0x49,
  skeletonUnit: 0x4a,
  gnuCallSite: 0x4109,
} as const;

export const at = {
  sibling: 0x01,
  location: 0x02,
  name: 0x03,
  byteSize: 0x0b,
  bitOffset: 0x0c,
  bitSize: 0x0d,
  stmtList: 0x10,
  lowPc: 0x11,
  highPc: 0x12,
  language: 0x13,
  compDir: 0x1b,
  constValue: 0x1c,
  inline: 0x20,
  producer: 0x25,
  prototyped: 0x27,
  upperBound: 0x2f,
  abstractOrigin: 0x31,
  artificial: 0x34,
  count: 0x37,
  dataMemberLocation: 0x38,
  declFile: 0x3a,
  declLine: 0x3b,
  declaration: 0x3c,
  encoding: 0x3e,
  external: 0x3f,
  frameBase: 0x40,
  specification: 0x47,
  type: 0x49,
  ranges: 0x55,
  dataBitOffset: 0x6b,
  entryPc: 0x52,
  callFile: 0x58,
  callLine: 0x59,
  linkageName: 0x6e,
  strOffsetsBase: 0x72,
  addrBase: 0x73,
  rnglistsBase: 0x74,
  loclistsBase: 0x8c,
  mipsLinkageName: 0x2007,
  gnuDwoName: 0x2130,
} as const;

export const form = {
  addr: 0x01,
  block2: 0x03,
  block4: 0x04,
  data2: 0x05,
  data4: 0x06,
  data8: 0x07,
  string: 0x08,
  block: 0x09,
  block1: 0x0a,
  data1: 0x0b,
  flag: 0x0c,
  sdata: 0x0d,
  strp: 0x0e,
  udata: 0x0f,
  refAddr: 0x10,
  ref1: 0x11,
  ref2: 0x12,
  ref4: 0x13,
  ref8: 0x14,
  refUdata: 0x15,
  indirect: 0x16,
  secOffset: 0x17,
  exprloc: 0x18,
  flagPresent: 0x19,
  strx: 0x1a,
  addrx: 0x1b,
  refSup4: 0x1c,
  strpSup: 0x1d,
  data16: 0x1e,
  lineStrp: 0x1f,
  refSig8: 0x20,
  implicitConst: 0x21,
  loclistx: 0x22,
  rnglistx: 0x23,
  refSup8: 0x24,
  strx1: 0x25,
  strx2: 0x26,
  strx3: 0x27,
  strx4: 0x28,
  addrx1: 0x29,
  addrx2: 0x2a,
  addrx3: 0x2b,
  addrx4: 0x2c,
  gnuRefAlt: 0x1f20,
  gnuStrpAlt: 0x1f21,
  /** Not in any file: what {@link form.refAddr} means in DWARF 2, where it is as long as an address. */
  refAddrOfDwarf2: 0xffff_0010,
} as const;

/** How many bytes a form takes where that is fixed; the others have their length in the data. */
export function fixedSize(ofForm: number, offsetSize: 4 | 8): number | undefined {
  switch (ofForm) {
    case form.flagPresent:
    case form.implicitConst:
      return 0;
    case form.data1:
    case form.flag:
    case form.ref1:
    case form.strx1:
    case form.addrx1:
      return 1;
    case form.data2:
    case form.ref2:
    case form.strx2:
    case form.addrx2:
      return 2;
    case form.strx3:
    case form.addrx3:
      return 3;
    case form.data4:
    case form.ref4:
    case form.strx4:
    case form.addrx4:
    case form.refSup4:
      return 4;
    case form.addr:
    case form.data8:
    case form.ref8:
    case form.refSig8:
    case form.refSup8:
    case form.refAddrOfDwarf2:
      return 8;
    case form.data16:
      return 16;
    case form.strp:
    case form.lineStrp:
    case form.strpSup:
    case form.secOffset:
    case form.refAddr:
    case form.gnuRefAlt:
    case form.gnuStrpAlt:
      return offsetSize;
    default:
      return undefined;
  }
}
