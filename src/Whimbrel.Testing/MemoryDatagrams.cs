using System.Net;
using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Linux;

namespace Whimbrel.Testing;

/// <summary>
/// Datagrams of the memory network, as seen by one machine: bound addresses, group members, and faults by the seed:
/// loss, duplicates, reordering, delay, an MTU, full buffers. Single-threaded.
/// </summary>
internal sealed class MemoryDatagrams(MemoryFaults faults, Random random, Func<long> nowMs)
{
    /// <summary>Bytes of a receive buffer that each datagram takes in addition to its own.</summary>
    private const int Overhead = 256;

    private readonly Dictionary<EndPoint, List<MemoryDatagramSocket>> _bound = [];
    private readonly HashSet<EndPoint> _unreachable = [];
    private int _nextPort = 40_000;
    private int _nextId = 1;

    /// <summary>Arrival time of the earliest datagram in transit.</summary>
    internal long NextArrivalMs
    {
        get
        {
            long due = long.MaxValue;
            foreach (List<MemoryDatagramSocket> there in _bound.Values)
            {
                foreach (MemoryDatagramSocket socket in there) due = Math.Min(due, socket.NextArrivalMs);
            }

            return due;
        }
    }

    internal void AddUnreachable(EndPoint endPoint) => _unreachable.Add(endPoint);

    /// <summary>Returns the address that a bind results in, or null if it is in use.</summary>
    internal EndPoint? Resolve(EndPoint endPoint, bool joins, bool isReused)
    {
        if (endPoint is IPEndPoint { Port: 0 } ip) return new IPEndPoint(ip.Address, _nextPort++);
        if (!_bound.TryGetValue(endPoint, out List<MemoryDatagramSocket>? there)) return endPoint;
        return (joins && there[0].IsShared) || (isReused && there[0].IsReused) ? endPoint : null;
    }

    internal int NextId() => _nextId++;

    internal void Add(MemoryDatagramSocket socket)
    {
        if (_bound.TryGetValue(socket.EndPoint, out List<MemoryDatagramSocket>? there)) there.Add(socket);
        else _bound.Add(socket.EndPoint, [socket]);
    }

    internal void Remove(MemoryDatagramSocket socket)
    {
        socket.IsClosed = true;
        List<MemoryDatagramSocket> there = _bound[socket.EndPoint];
        there.Remove(socket);
        if (there.Count == 0) _bound.Remove(socket.EndPoint);
    }

    // ------------------------------------------------------------------ sending

    /// <summary>Sends a datagram. Returns 0, also if it is lost later, or the error number of the send call.</summary>
    internal int Send(MemoryDatagramSocket? sender, DatagramPeer from, ReadOnlySpan<byte> data, DatagramPeer to)
    {
        if (data.Length > faults.DatagramMtuBytes) return Errno.EMSGSIZE;
        if (to.Name is not null) return SendUnix(from, data, to);
        if (sender is not null && sender.EndPoint is not IPEndPoint) return Errno.EINVAL;
        if (sender is { EndPoint.AddressFamily: AddressFamily.InterNetwork } && to.IsV6) return Errno.EAFNOSUPPORT;
        if (to.IsNone || to.Port == 0) return Errno.EINVAL;
        if (to.IsMulticast)
        {
            SendToGroup(sender, from, data, to);
            return 0;
        }

        if (to.IsV4 && to.V4Bytes == uint.MaxValue)
        {
            if (sender is { IsBroadcaster: false }) return Errno.EACCES;
            foreach (MemoryDatagramSocket one in AllAtPort(to.Port)) Carry(one, data, from);
            return 0;
        }

        if (_unreachable.Contains(to.ToEndPoint()!)) return Errno.ENETUNREACH;
        if (Find(to, from) is { } target) Carry(target, data, from);
        else if (sender is { HearsErrors: true }) sender.Errors.Enqueue((to, Errno.ECONNREFUSED, data.Length));
        return 0;
    }

    private int SendUnix(DatagramPeer from, ReadOnlySpan<byte> data, DatagramPeer to)
    {
        if (!_bound.TryGetValue(to.ToEndPoint()!, out List<MemoryDatagramSocket>? there)) return Errno.ENOENT;
        MemoryDatagramSocket target = there[0];
        // Unix datagrams are not lost: the sender waits for room.
        if (target.WaitingBytes + data.Length + Overhead > faults.DatagramBufferBytes) return Errno.EAGAIN;
        if (!target.Remote.IsNone && target.Remote != from) return Errno.EPERM;
        Arrive(target, data.ToArray(), from);
        return 0;
    }

    private void SendToGroup(MemoryDatagramSocket? sender, DatagramPeer from, ReadOnlySpan<byte> data, DatagramPeer to)
    {
        // All members are on this machine, so without loopback no member receives it.
        if (sender is { HasLoopback: false }) return;
        IPAddress group = to.ToAddress()!;
        IPAddress? source = from.ToAddress();
        int via = sender?.Interface ?? 0;
        foreach (MemoryDatagramSocket one in AllAtPort(to.Port))
        {
            if (one.EndPoint is IPEndPoint ip && !IsWildcard(ip.Address) && !ip.Address.Equals(group)) continue;
            if (one.TakesAllGroups || IsMember(one, group, source, via)) Carry(one, data, from);
        }
    }

    private static bool IsMember(MemoryDatagramSocket socket, IPAddress group, IPAddress? source, int via)
    {
        foreach (GroupMembership joined in socket.Groups)
        {
            if (!joined.Group.Equals(group) || Math.Max(1, joined.Interface) != Math.Max(1, via)) continue;
            if (joined.Source is null || joined.Source.Equals(source)) return true;
        }

        return false;
    }

    private List<MemoryDatagramSocket> AllAtPort(int port)
    {
        List<MemoryDatagramSocket> found = [];
        foreach ((EndPoint at, List<MemoryDatagramSocket> there) in _bound)
        {
            if (at is IPEndPoint ip && ip.Port == port) found.AddRange(there);
        }

        return found;
    }

    private static bool IsWildcard(IPAddress address) =>
        address.Equals(IPAddress.Any) || address.Equals(IPAddress.IPv6Any);

    private MemoryDatagramSocket? Find(DatagramPeer to, DatagramPeer from)
    {
        IPEndPoint exact = (IPEndPoint)to.ToEndPoint()!;
        return AnyAt(exact, from)
            ?? (to.IsV4 ? AnyAt(new IPEndPoint(IPAddress.Any, to.Port), from) : null)
            ?? AnyAt(new IPEndPoint(IPAddress.IPv6Any, to.Port), from);
    }

    private MemoryDatagramSocket? AnyAt(EndPoint endPoint, DatagramPeer from)
    {
        if (!_bound.TryGetValue(endPoint, out List<MemoryDatagramSocket>? there)) return null;
        MemoryDatagramSocket first = there[0];
        if (there.Count == 1) return first.Remote.IsNone || first.Remote == from ? first : null;
        if (!first.IsShared) return there[^1];
        // The hash must be the same in every run.
        uint hash = ((uint)from.Port * 2654435761) ^ (uint)from.HighBytes ^ (uint)from.LowBytes;
        return there[first.Steering == DatagramSteering.ByPeer
            ? (int)(hash % (uint)there.Count)
            : random.Next(there.Count)];
    }

    // ------------------------------------------------------------------ the way

    private bool Chance(int perMille) => perMille > 0 && random.Next(1000) < perMille;

    private void Carry(MemoryDatagramSocket target, ReadOnlySpan<byte> data, DatagramPeer from)
    {
        if (Chance(faults.DatagramLoss)) return;
        int copies = Chance(faults.DatagramDuplicate) ? 2 : 1;
        for (int i = 0; i < copies; i++)
        {
            byte[] bytes = data.ToArray();
            if (Chance(faults.DatagramDelay))
                target.OnTheWay.Add((nowMs() + 1 + random.Next(faults.DatagramDelayMs), bytes, from));
            else Arrive(target, bytes, from);
        }
    }

    private void Arrive(MemoryDatagramSocket target, byte[] data, DatagramPeer from)
    {
        if (target.WaitingBytes + data.Length + Overhead > faults.DatagramBufferBytes)
        {
            target.Dropped++;
            return;
        }

        target.WaitingBytes += data.Length + Overhead;
        int place = Chance(faults.DatagramReorder) ? random.Next(target.Waiting.Count + 1) : target.Waiting.Count;
        target.Waiting.Insert(place, (data, from));
    }

    /// <summary>Delivers datagrams that are due. Returns true if there is something to read.</summary>
    internal bool IsReadable(MemoryDatagramSocket socket)
    {
        long now = nowMs();
        for (int i = 0; i < socket.OnTheWay.Count; i++)
        {
            (long dueMs, byte[] data, DatagramPeer from) = socket.OnTheWay[i];
            if (dueMs > now) continue;
            socket.OnTheWay.RemoveAt(i--);
            Arrive(socket, data, from);
        }

        return socket.Waiting.Count > 0;
    }

    internal static (byte[] Data, DatagramPeer From) Take(MemoryDatagramSocket socket)
    {
        (byte[] Data, DatagramPeer From) first = socket.Waiting[0];
        socket.Waiting.RemoveAt(0);
        socket.WaitingBytes -= first.Data.Length + Overhead;
        return first;
    }

    /// <summary>
    /// Returns the source address of a socket's datagrams: a wildcard socket sends from the loopback address.
    /// </summary>
    internal static DatagramPeer SenderOf(EndPoint endPoint, DatagramPeer to) => endPoint switch
    {
        IPEndPoint ip when IsWildcard(ip.Address) =>
            new DatagramPeer(to.IsV6 ? IPAddress.IPv6Loopback : IPAddress.Loopback, ip.Port),
        _ => new DatagramPeer(endPoint),
    };
}
