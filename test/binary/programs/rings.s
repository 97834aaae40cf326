# Debug information that refers to itself in every way that a reader might follow without end.
	.text
	.globl	main
main:
	xorl	%eax, %eax
	ret
.Lmain_end:
	.section .debug_abbrev,"",@progbits
	.byte	1, 0x11, 1		# compile unit, with children
	.byte	0x03, 0x08, 0x11, 0x01, 0x12, 0x07	# name, low_pc, high_pc
	.byte	0, 0
	.byte	2, 0x16, 0		# typedef: name, type
	.byte	0x03, 0x08, 0x49, 0x13
	.byte	0, 0
	.byte	3, 0x01, 1		# array, with children: type
	.byte	0x49, 0x13
	.byte	0, 0
	.byte	4, 0x21, 0		# subrange: upper bound
	.byte	0x2f, 0x0b
	.byte	0, 0
	.byte	5, 0x0f, 0		# pointer: type
	.byte	0x49, 0x13
	.byte	0, 0
	.byte	6, 0x26, 0		# const: type
	.byte	0x49, 0x13
	.byte	0, 0
	.byte	7, 0x15, 1		# function type, with children: type
	.byte	0x49, 0x13
	.byte	0, 0
	.byte	8, 0x05, 0		# parameter: type
	.byte	0x49, 0x13
	.byte	0, 0
	.byte	9, 0x34, 0		# variable: name, type, location
	.byte	0x03, 0x08, 0x49, 0x13, 0x02, 0x18
	.byte	0, 0
	.byte	10, 0x2e, 1		# function, with children: name, low_pc, high_pc, frame base, abstract origin
	.byte	0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0x40, 0x18, 0x31, 0x13
	.byte	0, 0
	.byte	11, 0x34, 0		# variable: abstract origin
	.byte	0x31, 0x13
	.byte	0, 0
	.byte	12, 0x13, 1		# struct, with children: name, byte size
	.byte	0x03, 0x08, 0x0b, 0x0b
	.byte	0, 0
	.byte	13, 0x0d, 0		# member: name, type
	.byte	0x03, 0x08, 0x49, 0x13
	.byte	0, 0
	.byte	0
	.section .debug_info,"",@progbits
.Lunit:
	.long	.Linfo_end - .Linfo
.Linfo:
	.short	4
	.long	.debug_abbrev
	.byte	8
	.byte	1
	.string	"rings.c"
	.quad	main
	.quad	.Lmain_end - main
.La:	.byte	2
	.string	"a"
	.long	.Lb - .Lunit
.Lb:	.byte	2
	.string	"b"
	.long	.La - .Lunit
.Lc:	.byte	3
	.long	.Lc - .Lunit
	.byte	4, 7, 0
.Ld:	.byte	5
	.long	.Ld - .Lunit
.Le:	.byte	6
	.long	.Le - .Lunit
.Lf:	.byte	7
	.long	.Lf - .Lunit
	.byte	8
	.long	.Lf - .Lunit
	.byte	8
	.long	.Lf - .Lunit
	.byte	0
.Ls:	.byte	12
	.string	"s"
	.byte	8
	.byte	13
	.string	"itself"
	.long	.Ls - .Lunit
	.byte	0
.Lmain:	.byte	10
	.string	"main"
	.quad	main
	.quad	.Lmain_end - main
	.byte	2, 0x91, 0		# a frame base that is relative to the frame base
	.long	.Lmain - .Lunit
	.irp	name, a, b, c, d, e, f, s
	.byte	9
	.string	"of_\name"
	.long	.L\name - .Lunit
	.byte	2, 0x91, 0
	.endr
.Lv:	.byte	11
	.long	.Lv - .Lunit
	.byte	0
	.byte	0
.Linfo_end:
	.section .note.GNU-stack,"",@progbits
