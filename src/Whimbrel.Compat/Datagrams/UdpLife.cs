using System.Net;
using System.Net.Sockets;
using Whimbrel.Compat.Links;

namespace Whimbrel.Compat.Datagrams;

/// <summary>Opens and closes the link of a CSharpServer UDP object and joins groups, synchronously or
/// asynchronously.</summary>
/// <remarks>
/// <list type="number">
/// <item>Opening and closing never overlap. A call in the wrong state returns false and does nothing. <see
/// cref="OpenLater"/> may be called during a close.</item>
/// <item>The object is open from before TellOpened is called until a close begins. TellClosed is called when the link
/// is closed, and may open it again.</item>
/// <item>If opening fails, TellError and then TellFailed are called; the object is closed by then.</item>
/// <item>After <see cref="End"/> it cannot be opened, and an opening in progress is closed.</item>
/// <item>Asynchronous calls use no thread while they wait, and report through a callback of the link. Such an opening
/// also starts as a callback, after those already queued.</item>
/// <item>On a loop nothing waits: closes and joins become asynchronous, and <see cref="Open"/> throws. A join in a
/// callback of the link is asynchronous too.</item>
/// </list>
/// Any thread may use it. One owner, which is that of the link.
/// </remarks>
internal sealed class UdpLife(UdpLink link, IUdpOwner owner)
{
    private readonly Lock _gate = new();
    private volatile Phase _phase;
    private volatile bool _hasEnded;
    private Func<DatagramOptions>? _reopens; // after the close

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

    private static async ValueTask<SocketError> TryOpenAsync(Func<DatagramOptions> options,
        Func<DatagramOptions, ValueTask> open)
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
            return SocketError.InvalidArgument; // an invalid port or group
        }
        catch (InvalidOperationException)
        {
            return SocketError.OperationAborted; // the service was stopped during the call
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
        if (_hasEnded) CloseLater(); // End was called in a callback above
        return true;
    }

    /// <summary>Closes the socket permanently.</summary>
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
                // The loop is blocked: the socket closes when the loop continues.
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
        // A callback that waits occupies a pool thread, which the join of another client may need: a hundred clients
        // that joined in OnConnected took seconds.
        if (waits && Loop.Current is null && !link.IsTelling)
            Changed(group, joins, Wait.For(TryChangeAsync(() => Now(address), joins)));
        else _ = ChangeAsync();

        async Task ChangeAsync()
        {
            SocketError error = await TryChangeAsync(() => joins ? link.JoinAsync(address) : link.LeaveAsync(address),
                joins).ConfigureAwait(false);
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
            return SocketError.InvalidArgument; // not a group address
        }
        catch (InvalidOperationException)
        {
            // Same errors as the system's for a second join, and for a leave without a join.
            return joins ? SocketError.AddressAlreadyInUse : SocketError.AddressNotAvailable;
        }
    }

    private void Changed(string group, bool joins, SocketError error)
    {
        if (error == SocketError.Success) owner.TellGroup(group, joins);
        else if (IsOpen) owner.TellError(error);
    }
}
