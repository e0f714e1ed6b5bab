# bash completion of PROGRAM
_PROGRAM() {
	local cur=${COMP_WORDS[COMP_CWORD]} files=none word help
	COMPREPLY=()
	[[ $cur == "=" ]] && cur=
	{
		read -r files
		while IFS=$'\t' read -r word help; do
			# bash has split --flag=value and completes the value alone.
			[[ $word == --*=* && $COMP_WORDBREAKS == *=* ]] && word=${word#*=}
			COMPREPLY+=("$word")
		done
	} < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
	local flag=
	case $files in
	files) flag=-f ;;
	dirs) flag=-d ;;
	*) return ;;
	esac
	compopt -o filenames 2>/dev/null
	while IFS= read -r word; do
		COMPREPLY+=("$word")
	done < <(compgen $flag -- "$cur")
}
complete -F _PROGRAM PROGRAM
