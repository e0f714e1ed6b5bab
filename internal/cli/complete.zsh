#compdef PROGRAM
# zsh completion of PROGRAM
_PROGRAM() {
	local files
	local -a lines
	lines=("${(@f)$("${(@Q)words[1]}" __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
	files=$lines[1]
	shift lines
	lines=("${(@)lines//:/\\:}")
	lines=("${(@)lines/$'\t'/:}")
	(( $#lines )) && _describe 'completions' lines
	compset -P '--*='
	case $files in
	files) _files ;;
	dirs) _files -/ ;;
	esac
}
if [[ $funcstack[1] == _PROGRAM ]]; then
	_PROGRAM "$@"
else
	compdef _PROGRAM PROGRAM
fi
