package controller

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTruncate(t *testing.T) {
	tests := map[string]struct{ note, want string }{
		"a short note":                 {"created pod a", "created pod a"},
		"an empty note":                {"", ""},
		"a note of just 1024 bytes":    {strings.Repeat("x", 1024), strings.Repeat("x", 1024)},
		"a note of more than that":     {strings.Repeat("x", 1025), strings.Repeat("x", 1021) + "..."},
		"a cut between two characters": {strings.Repeat("x", 1019) + "éé" + "xxxx", strings.Repeat("x", 1019) + "é..."},
		"a cut within a character":     {strings.Repeat("x", 1020) + "éé" + "xxxx", strings.Repeat("x", 1020) + "..."},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := truncate(test.note)
			mustEqual(t, got, test.want)
			mustEqual(t, utf8.ValidString(got), true)
		})
	}
}
