package cli

import "strings"

// Nearest returns the known word that is most similar to a mistyped one, or "" if none is
// similar. Dashes and underscores do not count. Words of one or two letters are similar to none.
func Nearest(word string, known []string) string {
	bare := func(s string) string { return strings.NewReplacer("_", "", "-", "").Replace(s) }
	best, at := "", 1+min(2, len(bare(word))/3)
	for _, k := range known {
		if d := distance(bare(word), bare(k)); d < at {
			best, at = k, d
		}
	}
	return best
}

// distance returns the optimal string alignment distance of a and b: the least number of bytes to
// insert, delete, replace or swap with their neighbour to turn a into b.
func distance(a, b string) int {
	two, one, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		two, one, row = one, row, two
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(one[j+1]+1, row[j]+1, one[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], two[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
