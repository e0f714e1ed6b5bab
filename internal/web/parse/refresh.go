package parse

// refreshURL returns the URL of a refresh, or nil if it names none (HTML, 4.2.5.3, shared
// declarative refresh steps).
func refreshURL(v []byte) []byte {
	i, n := 0, len(v)
	skip := func() {
		for i < n && space(v[i]) {
			i++
		}
	}
	skip()
	digits := i
	for i < n && '0' <= v[i] && v[i] <= '9' {
		i++
	}
	if i == digits && (i == n || v[i] != '.') {
		return nil
	}
	for i < n && ('0' <= v[i] && v[i] <= '9' || v[i] == '.') {
		i++
	}
	if i < n {
		if v[i] != ';' && v[i] != ',' && !space(v[i]) {
			return nil
		}
		skip()
		if i < n && (v[i] == ';' || v[i] == ',') {
			i++
		}
		skip()
	}
	if i >= n {
		return nil
	}
	ref := v[i:]
	if !foldPrefix(ref, "url") {
		return unquote(ref)
	}
	i += 3
	skip()
	if i >= n || v[i] != '=' {
		return ref
	}
	i++
	skip()
	return unquote(v[i:])
}

// unquote returns the part of a reference within the quotation marks that it begins with.
func unquote(v []byte) []byte {
	if len(v) == 0 || v[0] != '"' && v[0] != '\'' {
		return v
	}
	for j := 1; j < len(v); j++ {
		if v[j] == v[0] {
			return v[1:j]
		}
	}
	return v[1:]
}
