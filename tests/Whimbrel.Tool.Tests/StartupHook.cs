// The runtime looks for this name, outside of any namespace, in the assembly that DOTNET_STARTUP_HOOKS names, and calls it
// before Main: so the tool can have a loop that is blocked, which it has not by itself (Whimbrel.Tool.Tests.BlockedLoop).
#pragma warning disable CA1050 // the name is the runtime's
internal static class StartupHook
#pragma warning restore CA1050
{
    public static void Initialize() => Whimbrel.Tool.Tests.BlockedLoop.WaitForOrder();
}
