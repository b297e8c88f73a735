using System.Net;
using System.Net.Sockets;
using Whimbrel.Compat.Links;

namespace Whimbrel.Compat.Datagrams;

/// <summary>Opens and closes the link of a UDP object of CSharpServer and joins groups, and waits for that or not.</summary>
/// <remarks>
/// <list type="number">
/// <item>Opening and closing take turns. What is called in the wrong state says false and does nothing; an opening that need not be at once may be asked for while it closes.</item>
/// <item>It is open from before Opened is told until a close begins. Closed is told when the link is closed, and it may be opened there.</item>
/// <item>An opening that fails tells its error, then Failed; it is closed by then.</item>
/// <item>Behind <see cref="End"/> it is not opened any more, and an opening that was under way is closed.</item>
/// <item>What does not wait needs no thread meanwhile, and is told as a callback of the link. An opening begins as one, too: behind those that wait.</item>
/// <item>On a loop's thread nothing waits: a close and a join there are of those that do not, and an opening throws. Nor does a join in a callback of the link.</item>
/// </list>
/// Any thread. One owner, which is the link's.
/// </remarks>
internal sealed class UdpLife(UdpLink link, IUdpOwner owner)
{
    private readonly Lock _gate = new();
    private volatile Phase _phase;
    private volatile bool _hasEnded;
    private Func<DatagramOptions>? _reopens; // behind the close

    private enum Phase
    {
        Closed,
        Opening,
        Open,
        Closing,
    }

    internal bool IsOpen => _phase == Phase.Open && link.IsOpen;

    private bool CanOpen => !_hasEnded && (_phase == Phase.Closed || (_phase == Phase.Open && !link.IsOpen));

    internal bool Open(Func<DatagramOptions> options)
    {
        UdpLink.RefuseLoop();
        lock (_gate)
        {
            if (!CanOpen) return false;
            _phase = Phase.Opening;
        }

        return Opened(Wait.For(TryOpenAsync(options, made =>
        {
            link.Open(made);
            return default;
        })));
    }

    internal bool OpenLater(Func<DatagramOptions> options)
    {
        lock (_gate)
        {
            if (_phase == Phase.Closing && _reopens is null && !_hasEnded)
            {
                _reopens = options;
                return true;
            }

            if (!CanOpen) return false;
            _phase = Phase.Opening;
        }

        BeginOpen(options);
        return true;
    }

    private void BeginOpen(Func<DatagramOptions> options) => link.Call(() =>
    {
        if (_hasEnded) _phase = Phase.Closed;
        else _ = OpenAsync();

        async Task OpenAsync()
        {
            SocketError error = await TryOpenAsync(options, link.OpenAsync).ConfigureAwait(false);
            link.Call(() => Opened(error));
        }
    });

    private static async ValueTask<SocketError> TryOpenAsync(Func<DatagramOptions> options, Func<DatagramOptions, ValueTask> open)
    {
        try
        {
            await open(options()).ConfigureAwait(false);
            return SocketError.Success;
        }
        catch (NetworkException e)
        {
            return e.Error.SocketError;
        }
        catch (SocketException e)
        {
            return e.SocketErrorCode;
        }
        catch (ArgumentException)
        {
            return SocketError.InvalidArgument; // a port or a group that is none
        }
        catch (InvalidOperationException)
        {
            return SocketError.OperationAborted; // the service has stopped meanwhile
        }
    }

    private bool Opened(SocketError error)
    {
        if (error != SocketError.Success)
        {
            _phase = Phase.Closed;
            owner.TellError(error);
            owner.TellFailed();
            return false;
        }

        _phase = Phase.Open;
        owner.TellOpened();
        if (_hasEnded) CloseLater(); // meanwhile
        return true;
    }

    /// <summary>Closes it, for good.</summary>
    internal void End()
    {
        _hasEnded = true;
        Close();
    }

    internal bool Close()
    {
        if (Loop.Current is not null) return CloseLater();
        if (!BeginClose()) return false;
        try
        {
            link.Close();
        }
        finally
        {
            Closed();
        }

        return true;
    }

    internal bool CloseLater()
    {
        if (!BeginClose()) return false;
        _ = CloseAsync();
        return true;

        async Task CloseAsync()
        {
            try
            {
                await link.CloseAsync().ConfigureAwait(false);
            }
            catch (NetworkException)
            {
                // Its loop is held up: it closes when that goes on.
            }

            link.Call(Closed);
        }
    }

    private bool BeginClose()
    {
        lock (_gate)
        {
            if (!IsOpen) return false;
            _phase = Phase.Closing;
            return true;
        }
    }

    private void Closed()
    {
        Func<DatagramOptions>? options;
        lock (_gate)
        {
            (options, _reopens) = (_reopens, null);
            _phase = options is null ? Phase.Closed : Phase.Opening;
        }

        try
        {
            owner.TellClosed();
        }
        finally
        {
            if (options is not null) BeginOpen(options);
        }
    }

    internal void Join(string group, bool waits = true) => Change(group, joins: true, waits);

    internal void Leave(string group, bool waits = true) => Change(group, joins: false, waits);

    private void Change(string group, bool joins, bool waits)
    {
        IPAddress address = IPAddress.Parse(group);
        if (!IsOpen) return;
        // A callback that waits holds a thread of the pool, by which the join of another may have to come: a hundred clients that join when they are connected took seconds.
        if (waits && Loop.Current is null && !link.IsTelling) Changed(group, joins, Wait.For(TryChangeAsync(() => Now(address), joins)));
        else _ = ChangeAsync();

        async Task ChangeAsync()
        {
            SocketError error = await TryChangeAsync(() => joins ? link.JoinAsync(address) : link.LeaveAsync(address), joins).ConfigureAwait(false);
            link.Call(() => Changed(group, joins, error));
        }

        ValueTask Now(IPAddress of)
        {
            if (joins) link.Join(of);
            else link.Leave(of);
            return default;
        }
    }

    private static async ValueTask<SocketError> TryChangeAsync(Func<ValueTask> change, bool joins)
    {
        try
        {
            await change().ConfigureAwait(false);
            return SocketError.Success;
        }
        catch (SocketException e)
        {
            return e.SocketErrorCode;
        }
        catch (NetworkException e)
        {
            return e.Error.SocketError;
        }
        catch (ArgumentException)
        {
            return SocketError.InvalidArgument; // no group
        }
        catch (InvalidOperationException)
        {
            // What the system says to a second join, and to a leave without one.
            return joins ? SocketError.AddressAlreadyInUse : SocketError.AddressNotAvailable;
        }
    }

    private void Changed(string group, bool joins, SocketError error)
    {
        if (error == SocketError.Success) owner.TellGroup(group, joins);
        else if (IsOpen) owner.TellError(error);
    }
}
