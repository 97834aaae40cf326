# A unit whose base address lies above its code, as Go writes it: the offsets in its range list are negative.
	.text
	.globl	main
main:
	xorl	%eax, %eax
	ret
.Lmain_end:
	.zero	64
.Lbase:
	.section .debug_abbrev,"",@progbits
	.byte	1, 0x11, 1		# compile unit, with children
	.byte	0x03, 0x08		# name, string
	.byte	0x11, 0x01		# low_pc, addr
	.byte	0x55, 0x17		# ranges, sec_offset
	.byte	0, 0
	.byte	2, 0x2e, 0		# subprogram
	.byte	0x03, 0x08		# name, string
	.byte	0x11, 0x01		# low_pc, addr
	.byte	0x12, 0x07		# high_pc, data8
	.byte	0, 0, 0
	.section .debug_info,"",@progbits
	.long	.Linfo_end - .Linfo
.Linfo:
	.short	4
	.long	.debug_abbrev
	.byte	8
	.byte	1
	.string	"above.go"
	.quad	.Lbase
	.long	.Lranges
	.byte	2
	.string	"main.main"
	.quad	main
	.quad	.Lmain_end - main
	.byte	0
.Linfo_end:
	.section .debug_ranges,"",@progbits
.Lranges:
	.quad	main - .Lbase, .Lmain_end - .Lbase
	.quad	0, 0
	.section .note.GNU-stack,"",@progbits
