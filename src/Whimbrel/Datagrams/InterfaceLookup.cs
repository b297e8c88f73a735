using Whimbrel.Engines;

namespace Whimbrel.Datagrams;

/// <summary>Looks up a network interface on the thread pool.</summary>
internal sealed class InterfaceLookup
{
    private readonly Engine _engine;
    private readonly string _name;
    private readonly Completion<int> _found;

    private InterfaceLookup(Engine engine, string name)
    {
        _engine = engine;
        _name = name;
        _found = new Completion<int>(engine);
    }

    /// <summary>
    /// Returns the number of the interface with that name, number or address; 0 for null. Throws
    /// <see cref="NetworkException"/> to the awaiting code if there is none.
    /// </summary>
    internal static ValueTask<int> FindAsync(Engine engine, string? name)
    {
        if (name is null) return new ValueTask<int>(0);
        if (int.TryParse(name, out int number) && number > 0) return new ValueTask<int>(number);
        InterfaceLookup lookup = new(engine, name);
        ValueTask<int> task = lookup._found.Task;
        engine.Offload(static state => ((InterfaceLookup)state!).Run(), lookup);
        return task;
    }

    private void Run()
    {
        int index;
        try
        {
            index = _engine.InterfaceIndexOf(_name);
        }
        catch (Exception e)
        {
            _found.SetException(e);
            return;
        }

        _found.SetResult(index);
    }
}
