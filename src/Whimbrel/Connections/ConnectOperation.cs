using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// One try to reach a peer that may have several addresses, as RFC 8305 says: looks names up off the loop, starts a
/// connector for the first address, for the next one 250 ms later or as soon as one has failed, and so on. The first that
/// is connected brings the socket, the others are closed. One time limit is over all of it. Ends exactly once: the
/// connection adopts a socket, or gets the reason why there is none, or has ended first and gives the dial up.
/// Owned by its connection; loop's thread only.
/// </summary>
/// <remarks>
/// Order: that of the end points as given. The addresses of one name come in the system's order (RFC 6724), changed so
/// that the two families take turns. With a fixed local port they are tried one after the other: a second socket could
/// not be bound to it.
/// </remarks>
internal sealed class ConnectOperation : PendingOperation, ILookupWaiter
{
    /// <summary>Head start of an address over the next one (RFC 8305, 5: recommended).</summary>
    private static readonly TimeSpan s_headStart = TimeSpan.FromMilliseconds(250);

    /// <summary>Of one name; some have hundreds.</summary>
    private const int MaxAddressesOfName = 64;

    private readonly Connection _connection;
    private readonly Place[] _places;
    private readonly EndPoint? _local;
    private readonly bool _oneByOne;
    private readonly List<ConnectAttempt> _attempts = [];
    private readonly List<NetworkException> _failures = [];
    private CloseReason _mostTelling;
    private LoopTimer? _deadline;
    private LoopTimer? _next;
    private bool _isOver;

    /// <summary>One end point as given, and what is known of its addresses.</summary>
    private struct Place
    {
        internal EndPoint Target;
        internal HostLookup? Lookup; // while it has no answer
        internal List<EndPoint>? Addresses; // of a name that was found
        internal int Taken;
    }

    internal ConnectOperation(Connection connection, IReadOnlyList<EndPoint> targets, EndPoint? local)
    {
        _connection = connection;
        _local = local;
        _oneByOne = local is IPEndPoint { Port: not 0 } or UnixDomainSocketEndPoint;
        _places = new Place[targets.Count];
        for (int i = 0; i < _places.Length; i++) _places[i].Target = targets[i];
        connection.ConnectOperation = this;
    }

    public Loop Loop => _connection.Loop;

    internal ConnectionOptions Options => _connection.Host.Options;

    internal void Start(TimeSpan timeout)
    {
        Loop.Add(this);
        _deadline = Loop.StartTimer(timeout, static state => ((ConnectOperation)state!).TimedOut(), this);
        for (int i = 0; i < _places.Length; i++)
        {
            if (_places[i].Target is DnsEndPoint name) _places[i].Lookup = Loop.Engine.Resolver.Ask(name.Host, this);
        }

        TryNext();
    }

    // ------------------------------------------------------------------ names

    /// <summary>A lookup has ended, perhaps after this dial.</summary>
    void ILookupWaiter.LookupEnded(HostLookup lookup)
    {
        if (_isOver) return;
        for (int i = 0; i < _places.Length; i++)
        {
            ref Place place = ref _places[i];
            if (!ReferenceEquals(place.Lookup, lookup)) continue;
            place.Lookup = null;
            DnsEndPoint name = (DnsEndPoint)place.Target;
            place.Addresses = TakeTurns(lookup.Addresses, name);
            if (place.Addresses.Count == 0) Report(name, new CloseReason(CloseCause.UnknownHost, 0, lookup.Error ?? new SocketException((int)SocketError.NoData)));
        }

        // An address that has its head start keeps it.
        if (_attempts.Count == 0 || _next is null) TryNext();
    }

    /// <summary>The system's order, changed so that IPv6 and IPv4 take turns, beginning with the family that the system prefers (RFC 8305, 4).</summary>
    private static List<EndPoint> TakeTurns(IPAddress[] addresses, DnsEndPoint name)
    {
        List<EndPoint> first = [];
        List<EndPoint> other = [];
        AddressFamily preferred = AddressFamily.Unspecified;
        foreach (IPAddress address in addresses)
        {
            // Names that filters answer with "no address" must not lead to this machine.
            if (address.Equals(IPAddress.Any) || address.Equals(IPAddress.IPv6Any)) continue;
            EndPoint endPoint = EndPointRules.Plain(new IPEndPoint(address, name.Port));
            if (name.AddressFamily is not AddressFamily.Unspecified && name.AddressFamily != endPoint.AddressFamily) continue;
            if (preferred == AddressFamily.Unspecified) preferred = endPoint.AddressFamily;
            (endPoint.AddressFamily == preferred ? first : other).Add(endPoint);
        }

        List<EndPoint> mixed = [];
        for (int i = 0; i < Math.Max(first.Count, other.Count) && mixed.Count < MaxAddressesOfName; i++)
        {
            if (i < first.Count) mixed.Add(first[i]);
            if (i < other.Count) mixed.Add(other[i]);
        }

        return mixed;
    }

    // ------------------------------------------------------------------ addresses

    private void TryNext()
    {
        Forget(ref _next);
        while (!_isOver)
        {
            if (TakeAddress(out string? host) is not { } address)
            {
                if (_attempts.Count == 0 && !IsLookingUp) Fail();
                return;
            }

            if (!Fits(address))
            {
                Report(address, new CloseReason(CloseCause.Unreachable, Linux.Errno.EADDRNOTAVAIL));
                continue;
            }

            ConnectAttempt connector = new(this, address, _local) { HostName = host };
            _attempts.Add(connector);
            if (!_oneByOne && HasMore) _next = Loop.StartTimer(s_headStart, static state => ((ConnectOperation)state!).TryNext(), this);
            Loop.Attach(connector);
            return;
        }
    }

    private EndPoint? TakeAddress(out string? host)
    {
        host = null;
        for (int i = 0; i < _places.Length; i++)
        {
            ref Place place = ref _places[i];
            if (place.Taken >= CountOf(in place)) continue;
            host = place.Target switch
            {
                DnsEndPoint name => name.Host.TrimEnd('.'),
                IPEndPoint ip => ip.Address.ToString(),
                _ => null,
            };
            return place.Addresses is { } addresses ? addresses[place.Taken++] : TakeOnly(ref place);
        }

        return null;
    }

    private static EndPoint TakeOnly(ref Place place)
    {
        place.Taken = 1;
        return place.Target;
    }

    private static int CountOf(in Place place) => place.Lookup is not null ? 0 : place.Addresses?.Count ?? 1;

    private bool HasMore
    {
        get
        {
            for (int i = 0; i < _places.Length; i++)
            {
                if (_places[i].Lookup is not null || _places[i].Taken < CountOf(in _places[i])) return true;
            }

            return false;
        }
    }

    private bool IsLookingUp
    {
        get
        {
            for (int i = 0; i < _places.Length; i++)
            {
                if (_places[i].Lookup is not null) return true;
            }

            return false;
        }
    }

    /// <summary>A socket bound to an address of one family cannot dial one of the other.</summary>
    private bool Fits(EndPoint address) => _local is null || _local.AddressFamily == address.AddressFamily;

    // ------------------------------------------------------------------ results

    /// <summary>A connector has failed, and its descriptor is closed.</summary>
    internal void Failed(ConnectAttempt connector, CloseReason reason)
    {
        if (!_attempts.Remove(connector) || _isOver) return;
        Report(connector.Target, reason);
        TryNext();
    }

    /// <summary>A connector has a connected socket. Completion phase: sessions may be called.</summary>
    internal void Connected(ConnectAttempt connector, RawSocket socket)
    {
        // The end of the dial gives up all that are under way, also those that are connected and have not told yet.
        Debug.Assert(!_isOver, "a connector that was given up has told nobody");
        _attempts.Remove(connector);
        End(new CloseReason(CloseCause.Cancelled));
        _connection.ConnectOperation = null;
        _connection.Session.SetLocalEndPoint(connector.LocalEndPoint);
        _connection.Session.SetRemoteEndPoint(connector.Target);
        _connection.ConnectedHost = connector.HostName;
        _connection.Adopt(socket);
    }

    private void Report(EndPoint where, CloseReason reason)
    {
        if (_failures.Count == 0 || Rank(reason.Cause) < Rank(_mostTelling.Cause)) _mostTelling = reason;
        _failures.Add(new NetworkException(reason.Error with { Message = $"{where}: {reason}" }, reason.Exception));
    }

    /// <summary>Of several failures the one that tells most: what this machine lacks, then what came back from the other end, then what did not.</summary>
    private static int Rank(CloseCause cause) => cause switch
    {
        CloseCause.ResourceLimit or CloseCause.SocketOption => 0,
        CloseCause.Refused or CloseCause.PeerReset => 1,
        CloseCause.TimedOut => 2,
        CloseCause.Unreachable => 4,
        CloseCause.UnknownHost => 5,
        _ => 3,
    };

    private void Fail()
    {
        // Each of several is told; a single one is the reason itself.
        if (_failures.Count > 1) _mostTelling = _mostTelling with { Exception = new AggregateException("All addresses failed.", _failures) };
        CloseReason reason = _mostTelling;
        End(reason);
        _connection.ConnectFailed(reason);
    }

    private void TimedOut()
    {
        if (_isOver) return;
        CloseReason reason = new(CloseCause.TimedOut);
        bool isPlain = _failures.Count == 0 && _attempts.Count == 1 && !IsLookingUp;
        foreach (ConnectAttempt connector in _attempts) Report(connector.Target, reason);
        for (int i = 0; i < _places.Length; i++)
        {
            if (_places[i].Lookup is not null) _failures.Add(new NetworkException(reason.Error with { Message = $"{_places[i].Target}: the name was not resolved in time" }));
        }

        if (!isPlain) reason = reason with { Exception = new AggregateException("Not connected in time.", _failures) };
        End(reason);
        _connection.ConnectFailed(reason);
    }

    // ------------------------------------------------------------------ the end

    /// <summary>The connection has ended, and knows why. What still comes in is closed.</summary>
    internal void GiveUp(CloseReason reason)
    {
        if (!_isOver) End(reason);
    }

    internal override void Stop() => _connection.AbortWith(new CloseReason(CloseCause.EngineStopped));

    private void End(CloseReason reason)
    {
        _isOver = true;
        Loop.Remove(this);
        Forget(ref _deadline);
        Forget(ref _next);
        for (int i = 0; i < _places.Length; i++)
        {
            if (_places[i].Lookup is { } lookup) Loop.Engine.Resolver.Leave(lookup, this);
            _places[i].Lookup = null;
        }

        // From behind, as a connector that is closed at once takes itself out.
        for (int i = _attempts.Count - 1; i >= 0; i--) _attempts[i].Cancel(reason);
    }

    private static void Forget(ref LoopTimer? timer)
    {
        timer?.Cancel();
        timer = null;
    }
}
