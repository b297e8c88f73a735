using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// One connect to a peer that may have several addresses, according to RFC 8305. Names are looked up outside the loop.
/// An attempt starts for the first address, for the next one after 250 ms or as soon as one has failed, and so on. The
/// first connected attempt provides the socket; the others are closed. One timeout covers the whole operation. It ends
/// exactly once: the connection adopts a socket, receives the failure, or has ended first and cancels the operation.
/// Owned by its connection; loop's thread only.
/// </summary>
/// <remarks>
/// Order: the end points as given. The addresses of one name follow the system's order (RFC 6724), with the two
/// families alternating. With a fixed local port they are tried one after the other, because a second socket could not
/// be bound to it.
/// </remarks>
internal sealed class ConnectOperation : PendingOperation, ILookupWaiter
{
    /// <summary>Head start of an address over the next one (RFC 8305, 5: recommended).</summary>
    private static readonly TimeSpan s_headStart = TimeSpan.FromMilliseconds(250);

    /// <summary>Highest number of addresses of one name; some names have hundreds.</summary>
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

    /// <summary>One end point as given, with its addresses as far as they are known.</summary>
    private struct Place
    {
        internal EndPoint Target;
        internal HostLookup? Lookup; // while it is pending
        internal List<EndPoint>? Addresses; // of a name that was resolved
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

    /// <summary>Called when a lookup has ended, possibly after this operation.</summary>
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
            if (place.Addresses.Count == 0)
                Report(name, new CloseReason(CloseCause.UnknownHost, 0,
                    lookup.Error ?? new SocketException((int)SocketError.NoData)));
        }

        // A running attempt keeps its head start.
        if (_attempts.Count == 0 || _next is null) TryNext();
    }

    /// <summary>
    /// Returns the addresses in the system's order, with IPv6 and IPv4 alternating, starting with the system's
    /// preferred family (RFC 8305, 4).
    /// </summary>
    private static List<EndPoint> TakeTurns(IPAddress[] addresses, DnsEndPoint name)
    {
        List<EndPoint> first = [];
        List<EndPoint> other = [];
        AddressFamily preferred = AddressFamily.Unspecified;
        foreach (IPAddress address in addresses)
        {
            // Some DNS filters answer a blocked name with the unspecified address, which would connect to this machine.
            if (address.Equals(IPAddress.Any) || address.Equals(IPAddress.IPv6Any)) continue;
            EndPoint endPoint = EndPointRules.Plain(new IPEndPoint(address, name.Port));
            if (name.AddressFamily is not AddressFamily.Unspecified && name.AddressFamily != endPoint.AddressFamily)
                continue;
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
            if (!_oneByOne && HasMore)
                _next = Loop.StartTimer(s_headStart, static state => ((ConnectOperation)state!).TryNext(), this);
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

    /// <summary>
    /// False if the local address has another family: a socket bound to it cannot connect to the address.
    /// </summary>
    private bool Fits(EndPoint address) => _local is null || _local.AddressFamily == address.AddressFamily;

    // ------------------------------------------------------------------ results

    /// <summary>Called when an attempt has failed and its descriptor is closed.</summary>
    internal void Failed(ConnectAttempt connector, CloseReason reason)
    {
        if (!_attempts.Remove(connector) || _isOver) return;
        Report(connector.Target, reason);
        TryNext();
    }

    /// <summary>Called when an attempt has a connected socket. Completion phase: sessions may be called.</summary>
    internal void Connected(ConnectAttempt connector, RawSocket socket)
    {
        // The end of the operation cancels all attempts, including those that are connected and have not reported yet.
        Debug.Assert(!_isOver, "a cancelled attempt has reported");
        _attempts.Remove(connector);
        End(new CloseReason(CloseCause.Cancelled));
        _connection.ConnectOperation = null;
        _connection.Adopt(socket, connector);
    }

    private void Report(EndPoint where, CloseReason reason)
    {
        if (_failures.Count == 0 || Rank(reason.Cause) < Rank(_mostTelling.Cause)) _mostTelling = reason;
        _failures.Add(new NetworkException(reason.Error with { Message = $"{where}: {reason}" }, reason.Exception));
    }

    /// <summary>
    /// Ranks failures, most informative first: missing resources of this machine, then replies of the peer, then
    /// silence.
    /// </summary>
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
        // All failures are reported if there are several; a single one is the reason itself.
        if (_failures.Count > 1)
            _mostTelling = _mostTelling with { Exception = new AggregateException("All addresses failed.", _failures) };
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
            if (_places[i].Lookup is not null)
                _failures.Add(new NetworkException(
                    reason.Error with { Message = $"{_places[i].Target}: the name was not resolved in time" }));
        }

        if (!isPlain) reason = reason with { Exception = new AggregateException("Not connected in time.", _failures) };
        End(reason);
        _connection.ConnectFailed(reason);
    }

    // ------------------------------------------------------------------ the end

    /// <summary>Called when the connection has ended with a reason. Sockets that still arrive are closed.</summary>
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

        // Backwards, because an attempt that is closed at once removes itself.
        for (int i = _attempts.Count - 1; i >= 0; i--) _attempts[i].Cancel(reason);
    }

    private static void Forget(ref LoopTimer? timer)
    {
        timer?.Cancel();
        timer = null;
    }
}
