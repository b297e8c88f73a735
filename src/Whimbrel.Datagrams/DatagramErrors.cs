using System.Net;
using System.Net.Sockets;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel.Datagrams;

/// <summary>
/// Converts error numbers of datagram calls to sentences. Common ones are cached, so that a flood of errors allocates
/// nothing. Any thread.
/// </summary>
internal static class DatagramErrors
{
    private const int Kept = 256;

    private static readonly NetworkError?[] s_known = new NetworkError?[Kept];

    /// <summary>Error for more datagrams than <see cref="DatagramOptions.AnswerLimit"/> allows.</summary>
    internal static NetworkError Withheld { get; } =
        new(0, ErrorCategory.Limit, "It would have been more than AnswerLimit allows for a peer that has not proved "
            + "its address. See docs/symptoms/datagram-not-sent.md, or: whimbrel explain datagram-not-sent.");

    internal static NetworkError Of(int error)
    {
        if ((uint)error >= Kept) return Make(error);
        // Two threads may both create it, with the same result.
        return s_known[error] ??= Make(error);
    }

    private static NetworkError Make(int error)
    {
        ErrorCategory category = error switch
        {
            Errno.ECONNREFUSED => ErrorCategory.Refused,
            Errno.ENETUNREACH or Errno.EHOSTUNREACH or Errno.ENETDOWN or Errno.EHOSTDOWN or Errno.EADDRNOTAVAIL
            or Errno.EAFNOSUPPORT or Errno.ENOENT => ErrorCategory.Unreachable,
            Errno.EMSGSIZE or Errno.ENOBUFS or Errno.ENOMEM => ErrorCategory.Limit,
            _ => ErrorCategory.System,
        };
        return new NetworkError(error, category,
            $"{WordsOf(error)} See docs/symptoms/datagram-not-sent.md, or: whimbrel explain datagram-not-sent.");
    }

    /// <summary>Returns the reason and the system's error text.</summary>
    internal static string WordsOf(int error)
    {
        string why = error switch
        {
            Errno.ECONNREFUSED => "No socket receives at that port.",
            Errno.EMSGSIZE => "The datagram is larger than the path takes.",
            Errno.EPERM => "A firewall rule of this machine dropped it.",
            Errno.EACCES =>
                "The system forbids it: a broadcast address needs the option Broadcast, or a firewall rule said no.",
            Errno.EINVAL => "The address cannot be sent to, as port 0.",
            Errno.EAFNOSUPPORT => "The peer's address is of another family than the socket's.",
            Errno.EHOSTUNREACH or Errno.ENETUNREACH => "No way leads there.",
            _ => "The system did not take or deliver it.",
        };
        return $"{why} {ErrorText.Of(error)} (error {error}).";
    }

    internal static NetworkException BindFailure(EndPoint endPoint, DatagramOptions options, int error)
    {
        if (options.RemoteEndPoint is { } remote
            && error is Errno.ENETUNREACH or Errno.EHOSTUNREACH or Errno.ECONNREFUSED or Errno.ENOENT or Errno.EACCES)
            return new NetworkException(new NetworkError(error,
                error is Errno.ECONNREFUSED or Errno.ENOENT ? ErrorCategory.Refused : ErrorCategory.Unreachable,
                $"Cannot connect a datagram socket to {remote}: {ErrorText.Of(error)} (error {error}). "
                + $"See docs/symptoms/datagram-not-sent.md, or: whimbrel explain datagram-not-sent."));
        string hint = error switch
        {
            Errno.EADDRINUSE =>
                " Another socket has the address; several receivers of a multicast group share it with ReuseAddress.",
            Errno.EADDRNOTAVAIL => " This machine does not have that address.",
            Errno.EACCES => " Ports below 1024 need a privilege.",
            _ => "",
        };
        return new NetworkException(new NetworkError(error, ErrorCategory.Bind,
            $"Cannot bind a datagram socket to {endPoint}: {ErrorText.Of(error)} (error {error}).{hint} "
            + $"See docs/symptoms/port-taken.md, or: whimbrel explain port-taken."));
    }

    internal static NetworkException JoinFailure(MulticastGroup group, int error)
    {
        string sysctl = group.Source is null
            ? "net.ipv4.igmp_max_memberships (20 unless changed)"
            : "net.ipv4.igmp_max_msf (10 unless changed), for groups net.ipv4.igmp_max_memberships";
        string why = error switch
        {
            Errno.ENOBUFS or Errno.ENOMEM => $" The socket is a member of as many groups as the system allows: raise "
                + $"the sysctl {sysctl}, or use another socket.",
            Errno.ENODEV => " No interface is there for it: there is no route for the group, or no such interface; "
                + "name one in MulticastGroup.Interface.",
            Errno.EADDRNOTAVAIL => " The interface does not have that address.",
            Errno.ENOPROTOOPT when group.Address.AddressFamily == AddressFamily.InterNetworkV6 =>
                " An IPv6 group needs an IPv6 socket: bind it to IPAddress.IPv6Any.",
            Errno.EOPNOTSUPP => " This system cannot join a single source by this engine.",
            _ => "",
        };
        return new NetworkException(new NetworkError(
            error,
            error is Errno.ENOBUFS or Errno.ENOMEM ? ErrorCategory.Limit : ErrorCategory.System,
            $"Cannot join {group}: {ErrorText.Of(error)} (error {error}).{why} "
            + $"See docs/symptoms/multicast.md, or: whimbrel explain multicast."));
    }
}
