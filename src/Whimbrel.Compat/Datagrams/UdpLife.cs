using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Compat.Datagrams;

/// <summary>Opens and closes the link of a UDP object of CSharpServer and joins groups, at once or behind the callbacks that wait.</summary>
/// <remarks>
/// <list type="number">
/// <item>Opening and closing take turns. What is called in the wrong state says false and does nothing; an opening that need not be at once may be asked for while it closes.</item>
/// <item>It is open from before Opened is told until a close begins. Closed is told when the link is closed, and it may be opened there.</item>
/// <item>An opening that fails tells its error, then Failed; it is closed by then.</item>
/// <item>Behind <see cref="End"/> it is not opened any more, and an opening that was under way is closed.</item>
/// <item>What waits does not on a loop's thread: it comes as a callback then.</item>
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
        lock (_gate)
        {
            if (!CanOpen) return false;
            _phase = Phase.Opening;
        }

        return OpenNow(options);
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

        link.Call(() => OpenNow(options));
        return true;
    }

    private bool OpenNow(Func<DatagramOptions> options)
    {
        if (_hasEnded)
        {
            _phase = Phase.Closed;
            return false;
        }

        SocketError error = TryOpen(options);
        if (error != SocketError.Success)
        {
            owner.TellError(error);
            owner.TellFailed();
            return false;
        }

        owner.TellOpened();
        if (_hasEnded) Close(); // meanwhile
        return true;
    }

    private SocketError TryOpen(Func<DatagramOptions> options)
    {
        SocketError error = SocketError.SocketError;
        try
        {
            link.Open(options());
            error = SocketError.Success;
        }
        catch (SocketException e)
        {
            error = e.SocketErrorCode;
        }
        catch (ArgumentException)
        {
            error = SocketError.InvalidArgument; // a port or a group that is none
        }
        catch (InvalidOperationException) when (Loop.Current is null)
        {
            error = SocketError.OperationAborted; // the service has stopped meanwhile
        }
        finally
        {
            _phase = error == SocketError.Success ? Phase.Open : Phase.Closed;
        }

        return error;
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
        CloseNow();
        return true;
    }

    internal bool CloseLater()
    {
        if (!BeginClose()) return false;
        link.Call(CloseNow);
        return true;
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

    private void CloseNow()
    {
        Func<DatagramOptions>? options = null;
        try
        {
            link.Close();
        }
        finally
        {
            lock (_gate)
            {
                (options, _reopens) = (_reopens, null);
                _phase = options is null ? Phase.Closed : Phase.Opening;
            }
        }

        try
        {
            owner.TellClosed();
        }
        finally
        {
            if (options is not null) link.Call(() => OpenNow(options));
        }
    }

    internal void Join(string group, bool waits = true) => Change(group, joins: true, waits);

    internal void Leave(string group, bool waits = true) => Change(group, joins: false, waits);

    private void Change(string group, bool joins, bool waits)
    {
        IPAddress address = IPAddress.Parse(group);
        if (!IsOpen) return;
        if (waits && Loop.Current is null) ChangeNow(group, address, joins);
        else link.Call(() => ChangeNow(group, address, joins));
    }

    private void ChangeNow(string group, IPAddress address, bool joins)
    {
        if (!IsOpen) return;
        try
        {
            if (joins) link.Join(address);
            else link.Leave(address);
        }
        catch (SocketException e)
        {
            owner.TellError(e.SocketErrorCode);
            return;
        }
        catch (ArgumentException)
        {
            owner.TellError(SocketError.InvalidArgument); // no group
            return;
        }
        catch (InvalidOperationException)
        {
            // What the system says to a second join, and to a leave without one.
            if (IsOpen) owner.TellError(joins ? SocketError.AddressAlreadyInUse : SocketError.AddressNotAvailable);
            return;
        }

        owner.TellGroup(group, joins);
    }
}
