namespace Whimbrel.Engines;

/// <summary>Looks one network interface up, off the loops.</summary>
internal sealed class InterfaceLookup(Engine engine, string name, Completion<int> found)
{
    internal void Run()
    {
        int index;
        try
        {
            index = engine.InterfaceIndexOf(name);
        }
        catch (Exception e)
        {
            found.SetException(e);
            return;
        }

        found.SetResult(index);
    }
}
