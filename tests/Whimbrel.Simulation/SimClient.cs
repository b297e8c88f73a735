using System.Net;
using Whimbrel.Testing;

namespace Whimbrel.Simulation;

// A client that connects repeatedly, as long as the budget of the world lasts.
internal sealed class SimClient : IAsyncDisposable
{
    private readonly World _world;
    private readonly Client _client;
    private readonly CancellationTokenSource _giveUp = new();
    private bool _isDisposed;

    internal SimClient(World world, int number, EndPoint target)
    {
        _world = world;
        Number = number;
        _client = new Client(world.ClientOptions(target), () => new SimSession(world, this));
    }

    internal int Number { get; }

    internal CancellationToken GiveUp => _giveUp.Token;

    internal void Connect(bool cancellable)
    {
        if (_world.Budget <= 0) return;
        _world.Budget--;
        _world.Log($"client {Number} connects");
        ValueTask<Session> connecting;
        try
        {
            connecting = _client.ConnectAsync(cancellable ? _giveUp.Token : default);
        }
        catch (InvalidOperationException e)
        {
            // The client may be connected, connecting or disposed when another thread makes this call.
            _world.Log($"client {Number}: {e.Message}");
            return;
        }

        _ = WatchAsync(connecting);
    }

    private async Task WatchAsync(ValueTask<Session> connecting)
    {
        string what = $"ConnectAsync of client {Number}";
        _world.Awaited.Add(what);
        try
        {
            Session session = await connecting;
            if (session is not SimSession { HasConnected: true })
                _world.Fail($"client {Number}: ConnectAsync completed before OnConnected");
        }
        catch (Exception e) when (e is NetworkException or OperationCanceledException or ScriptException)
        {
            _world.Log($"client {Number}: {e.GetType().Name}");
        }
        catch (Exception e)
        {
            _world.Fail($"client {Number}: ConnectAsync threw {e}");
        }
        finally
        {
            _world.Awaited.Remove(what);
        }
    }

    internal void Cancel()
    {
        if (!_isDisposed) _giveUp.Cancel();
    }

    internal void Disconnect() => _ = _world.Watch(_client.DisconnectAsync());

    public ValueTask DisposeAsync()
    {
        _isDisposed = true;
        _giveUp.Dispose();
        return _client.DisposeAsync();
    }
}
