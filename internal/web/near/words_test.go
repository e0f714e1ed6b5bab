package near

import "testing"

// In scripts without spaces between words, each character is a word.
func TestWords(t *testing.T) {
	for text, want := range map[string]int{
		"The Moon's 2 sides": 5, "naïve café": 2, "2024年": 2, "今日は": 3, "東京タワーは1958年にABC完成": 12,
		"ーABC": 1, "ภาษาไทย": 7, "한국어 텍스트": 2, "": 0, "、。": 0,
	} {
		n := 0
		if new(Scratch).words([]byte(text), func(uint64) { n++ }); n != want {
			t.Errorf("%q has %d words, want %d", text, n, want)
		}
	}
}
