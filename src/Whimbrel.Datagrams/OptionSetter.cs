using System.Net;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel.Datagrams;

/// <summary>
/// Sets options of one socket with Linux constants, and keeps the first failure; later options are skipped then.
/// </summary>
internal ref struct OptionSetter(RawSocket socket, EndPoint endPoint)
{
    internal NetworkException? Fault { get; private set; }

    internal void Set(string option, int level, int name, int value)
    {
        if (Fault is null) Report(option, SocketOptions.SetRaw(socket, level, name, value));
    }

    internal void Set(string option, int level, int name, scoped ReadOnlySpan<byte> value)
    {
        if (Fault is null) Report(option, SocketOptions.SetRaw(socket, level, name, value));
    }

    private void Report(string option, int error)
    {
        if (error == 0) return;
        string hint = error switch
        {
            Errno.EPERM or Errno.EACCES => " It needs a privilege: the capability CAP_NET_ADMIN, or root.",
            Errno.ENODEV or Errno.EADDRNOTAVAIL => " There is no such network interface.",
            Errno.ENOPROTOOPT or Errno.EOPNOTSUPP => " This kernel does not have it.",
            _ => "",
        };
        Fault = new NetworkException(new NetworkError(
            error,
            ErrorCategory.Option,
            $"Cannot prepare a datagram socket for {endPoint}: the system refused {option}: {ErrorText.Of(error)} "
            + $"(error {error}).{hint} See docs/symptoms/socket-option.md, or: whimbrel explain socket-option."));
    }

    /// <summary>Sets both options of an IPv6 socket: the IPv4 one is for mapped addresses.</summary>
    internal void Both(bool isV6, string option, int nameV4, int nameV6, int value)
    {
        if (isV6) Set(option, SocketAbi.IPPROTO_IPV6, nameV6, value);
        if (isV6) Try(SocketAbi.IPPROTO_IP, nameV4, value);
        else Set(option, SocketAbi.IPPROTO_IP, nameV4, value);
    }

    /// <summary>Sets an option that the socket can do without.</summary>
    internal readonly bool Try(int level, int name, int value) => SocketOptions.SetRaw(socket, level, name, value) == 0;

    internal readonly void Try(int level, int name, scoped ReadOnlySpan<byte> value) =>
        _ = SocketOptions.SetRaw(socket, level, name, value);
}
