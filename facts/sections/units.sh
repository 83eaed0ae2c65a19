# The units of our services, one call for all.
section_units() {
    ((${#units[@]})) || return 0
    run systemctl show --no-pager --property=Id,LoadState,ActiveState,SubState,UnitFileState,MainPID,NRestarts \
        --property=ActiveEnterTimestamp,InvocationID,DropInPaths,FragmentPath,NeedDaemonReload -- "${units[@]}"
}
