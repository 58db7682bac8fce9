#!/bin/sh
# The client command of the kit: NEOVIM is the editor, standard input becomes descriptor 3, for the editor reads its own.
here=$(dirname "$0")
exec "${NEOVIM:-nvim}" --headless -u NONE -i NONE --cmd "set rtp^=$here/../../../clients/neovim" \
    -c "luafile $here/conformance.lua" 3<&0 </dev/null
