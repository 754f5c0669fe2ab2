package catalog

// rockLakeRequired are, by tag, the fields RockLake leaves out when they are
// 0, false or empty; any other field it leaves out is NULL. Our own rows know
// no such rule.
var rockLakeRequired = map[byte][]int{
	0x01: {1, 2}, 0x02: {1, 2, 3}, 0x03: {1}, 0x04: {1, 2, 3}, 0x05: {1, 2, 3, 4},
	0x06: {1, 2, 3, 4, 5, 6, 9}, 0x07: {1, 2, 3, 4, 5}, 0x08: {1, 2, 3, 5},
	0x09: {1, 2, 3}, 0x0A: {1, 2, 3, 4, 5}, 0x0B: {1, 2, 3, 4, 5, 6},
	0x0C: {1, 2, 3, 4, 5}, 0x0D: {1, 3}, 0x0E: {1, 2, 3}, 0x0F: {1, 2},
	0x10: {1, 2, 3}, 0x11: {1, 2, 4}, 0x12: {1, 2, 3}, 0x13: {1, 2, 3, 7},
	0x14: {1, 2, 4, 5}, 0x15: {1, 2, 3}, 0x16: {1, 2, 3}, 0x17: {1, 2, 3},
	0x18: {1, 2, 3}, 0x19: {1, 2}, 0x1A: {1, 2, 3, 4}, 0x1B: {1, 2, 3, 4, 5},
	0x1C: {1, 2, 3},
}
